"""What this process is doing now: stage, epoch, step, batch. Read when a rank fails."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class Where:
    """A notebook of one page per process; writing to it costs one dictionary store."""

    def __init__(self) -> None:
        self._facts: dict[str, object] = {}

    def note(self, **facts: object) -> None:
        """Remember facts such as ``stage="fit", epoch=0, step=12``; later ones replace earlier ones."""
        self._facts.update(facts)

    def clear(self) -> None:
        """Forget everything, at the beginning and the end of a run."""
        self._facts.clear()

    @contextmanager
    def apart(self) -> Iterator[None]:
        """Run a block that notes what it does itself; afterwards it says again what it said before.

        What failed in the block stays, so that a report tells where it was.
        """
        before = dict(self._facts)
        yield
        self._facts = before

    def __reduce__(self) -> str:
        """Pickle as a name: in another process it is that process's notebook."""
        return "HERE"

    def __str__(self) -> str:
        """Render as ``stage fit, epoch 0, step 12``; empty when nothing was noted."""
        return ", ".join(f"{name} {value}" for name, value in self._facts.items())


HERE = Where()
