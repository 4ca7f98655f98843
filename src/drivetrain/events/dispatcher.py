"""Dispatcher: who overrides which hook, looked up once, so that a loop calls only what exists."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, final

from drivetrain.events.hook import is_unused
from drivetrain.events.registry import takes
from drivetrain.events.table import HOOKS

Calls: TypeAlias = "tuple[Callable[..., Any], ...]"


@final
class Dispatcher:
    """The calls that each hook of one run means, in order; empty for a hook that nobody overrides.

    Order: callbacks as given, the module, callbacks that decide (``decides``), then those with ``is_last``.
    """

    def __init__(self, run: object, module: object, callbacks: Sequence[object]) -> None:
        self._run, self._module = run, module
        by_turn: tuple[list[object], ...] = ([], [], [])
        for callback in callbacks:
            decides, is_last = getattr(callback, "decides", False), getattr(callback, "is_last", False)
            by_turn[1 if decides else 2 if is_last else 0].append(callback)
        self._early, self._last = by_turn[0], by_turn[1] + by_turn[2]
        self._calls: dict[str, tuple[Calls, Calls]] = {name: self._find(name) for name in HOOKS}

    def calls(self, name: str) -> Calls:
        """Return what the hook calls, to loop over in a hot path."""
        early, last = self._calls[name]
        return early + last

    def early(self, name: str, *arguments: object) -> None:
        """Call the callbacks that are not last, and the module."""
        for call in self._calls[name][0]:
            call(*arguments)

    def last(self, name: str, *arguments: object) -> None:
        """Call the callbacks that come last."""
        for call in self._calls[name][1]:
            call(*arguments)

    def __call__(self, name: str, *arguments: object) -> None:
        """Call everybody who overrides the hook."""
        self.early(name, *arguments)
        self.last(name, *arguments)

    def _find(self, name: str) -> tuple[Calls, Calls]:
        early = [call for callback in self._early for call in self._of(callback, name)]
        if HOOKS[name].on_module:
            method = getattr(self._module, name, None)
            early += [] if method is None or is_unused(method) else [self._fitted(method, name, 0)]
        return tuple(early), tuple(call for callback in self._last for call in self._of(callback, name))

    def _of(self, callback: object, name: str) -> list[Callable[..., Any]]:
        method = getattr(callback, name, None)
        if method is None or is_unused(method):
            return []
        return [self._fitted(functools.partial(method, self._run, self._module), name, 2, method)]

    @staticmethod
    def _fitted(
        call: Callable[..., Any], name: str, before: int, method: object = None
    ) -> Callable[..., Any]:
        # dataloader_idx may be left out of a signature when there is one loader, as it always could be.
        arguments = HOOKS[name].arguments
        if arguments[-1:] != ("dataloader_idx",) or takes(method or call, before + len(arguments)):
            return call

        @functools.wraps(call, updated=())
        def without_index(*given: object) -> object:
            return call(*given[:-1])

        return without_index
