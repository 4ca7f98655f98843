"""Silence: what stands in for an experiment where nothing is to be written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, final

from typing_extensions import Self


@final
class Silence:
    """Takes every call, attribute and item, does nothing, and answers with itself.

    So ``experiment.config.update(...)`` or ``experiment.log_artifact(...).wait()`` need no ``if rank``.
    """

    def __getattr__(self, name: str) -> Self:
        """Return itself; special methods that are not here stay missing, so that pickle and copy work."""
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __setattr__(self, name: str, value: object) -> None:
        """Keep nothing."""

    def __call__(self, *args: Any, **kwargs: Any) -> Self:
        """Do nothing."""
        return self

    def __getitem__(self, key: Any) -> Self:
        """Return itself."""
        return self

    def __setitem__(self, key: Any, value: object) -> None:
        """Keep nothing."""

    def __iter__(self) -> Iterator[Any]:
        """Have no members."""
        return iter(())

    def __enter__(self) -> Self:
        """Open nothing."""
        return self

    def __exit__(self, *args: object) -> None:
        """Close nothing."""


SILENCE = Silence()
