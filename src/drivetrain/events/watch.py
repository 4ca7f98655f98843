"""Watch: what a profiler sees of a run; without one, nothing is put around anything."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])
Item = TypeVar("Item")


class Watch:
    """Hands back what it is given. Loops ask it where they look a call up, not where they call."""

    def call(self, function: Function, name: str) -> Function:  # noqa: ARG002 - for those that watch
        """Return the function, or one that does the same and is seen under the name."""
        return function

    def each(self, items: Iterator[Item], name: str) -> Iterator[Item]:  # noqa: ARG002 - as above
        """Return the items, or the same ones with each wait for the next seen under the name."""
        return items

    def steps(self, optimizers: Sequence[Any]) -> list[Any]:  # noqa: ARG002 - as above
        """See the optimizers' steps; return what is to be removed when the run ends."""
        return []
