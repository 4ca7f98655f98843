"""What the loops ask to be watched, as a profiler's actions."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar, cast, final

from drivetrain.events import Watch
from drivetrain.profilers.pass_through import PassThroughProfiler
from drivetrain.profilers.profiler import Profiler
from drivetrain.strategies.strategy import Strategy

Function = TypeVar("Function", bound=Callable[..., Any])
Item = TypeVar("Item")

_OF_STRATEGY = ("training_step", "backward", "batch_to_device")
"""What a strategy does in a step; evaluation steps are watched where they are looked up."""


def watch_for(profiler: Profiler, strategy: Strategy) -> Watch:
    """Return what watches a run for the profiler; nothing is watched where there is none."""
    if isinstance(profiler, PassThroughProfiler):
        return Watch()
    watch = Watching(profiler)
    for name in _OF_STRATEGY:
        # The strategy was made for this run alone; its own attribute is found before the class's method.
        seen = watch.call(getattr(strategy, name), f"[Strategy]{type(strategy).__name__}.{name}")
        vars(strategy)[name] = seen
    return watch


@final
class Watching(Watch):
    """Puts the profiler's start and stop around what is called."""

    def __init__(self, profiler: Profiler) -> None:
        self._start, self._stop = profiler.start, profiler.stop

    def call(self, function: Function, name: str) -> Function:
        """Return a function that does the same, as an action."""
        start, stop = self._start, self._stop

        def watched(*arguments: Any, **named: Any) -> Any:
            start(name)
            try:
                return function(*arguments, **named)
            finally:
                stop(name)

        # Where it is from, and what it takes, is asked of what is called in the end.
        inner = function.func if isinstance(function, functools.partial) else function
        functools.update_wrapper(watched, inner, updated=())
        vars(watched)["__wrapped__"] = function
        return cast("Function", watched)

    def each(self, items: Iterator[Item], name: str) -> Iterator[Item]:
        """Return the same items; each wait for the next is an action."""
        try:
            while True:
                self._start(name)
                try:
                    item = next(items)
                except StopIteration:
                    return
                finally:
                    self._stop(name)
                yield item
        finally:
            close = getattr(items, "close", None)
            if close is not None:
                close()

    def steps(self, optimizers: Sequence[Any]) -> list[Any]:
        """Make each step of an optimizer an action."""
        handles = []
        for optimizer in optimizers:
            name = f"[Optimizer]{type(optimizer).__name__}.step"
            handles += [
                optimizer.register_step_pre_hook(functools.partial(self._note, self._start, name)),
                optimizer.register_step_post_hook(functools.partial(self._note, self._stop, name)),
            ]
        return handles

    @staticmethod
    def _note(moment: Callable[[str], None], name: str, *_: Any) -> None:
        moment(name)
