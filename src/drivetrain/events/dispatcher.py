"""Dispatcher: who overrides which hook, looked up once, so that a loop calls only what exists."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, final

from drivetrain.events.hook import is_unused
from drivetrain.events.registry import takes
from drivetrain.events.table import HOOKS
from drivetrain.events.watch import Watch

Calls: TypeAlias = "tuple[Callable[..., Any], ...]"


@final
class Dispatcher:
    """The calls that each hook of one run means, in order; empty for a hook that nobody overrides.

    ``watch`` puts around each call what it wants to see of it, here, once.
    Order: callbacks as given, the module, callbacks that decide (``decides``), then those with ``is_last``.
    Of a hook with ``module_first``, `early` is the module alone and `last` are all callbacks.
    """

    def __init__(
        self, run: object, module: object, callbacks: Sequence[object], watch: Watch | None = None
    ) -> None:
        self._run, self._module, self._watch = run, module, watch or Watch()
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

    def turns(self, name: str) -> tuple[Calls, Calls]:
        """Return what the hook calls, in two turns: the callbacks that come last have their own."""
        return self._calls[name]

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
        last = [call for callback in self._last for call in self._of(callback, name)]
        if HOOKS[name].module_first:
            early, last = [], early + last
        if HOOKS[name].on_module:
            method = getattr(self._module, name, None)
            if method is not None and not is_unused(method):
                known = f"[Module]{type(self._module).__name__}.{name}"
                early.append(self._watch.call(self._fitted(method, name, 0), known))
        return tuple(early), tuple(last)

    def _of(self, callback: object, name: str) -> list[Callable[..., Any]]:
        method = getattr(callback, name, None)
        if method is None or is_unused(method):
            return []
        call = self._fitted(functools.partial(method, self._run, self._module), name, 2, method)
        known = getattr(callback, "state_key", type(callback).__name__)
        return [self._watch.call(call, f"[Callback]{known}.{name}")]

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
