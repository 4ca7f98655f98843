"""A word to whoever watches, when a rank waits long for the others."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator

from drivetrain.base.where import HERE

PATIENCE_S = 30.0
"""After this long a line is printed; the wait goes on, as a rank may have good reasons to be late."""


@contextlib.contextmanager
def patient(rank: int, what: str) -> Iterator[None]:
    """Run a block that waits for every rank, and say so once if it takes long."""

    def say() -> None:
        print(  # noqa: T201 - a warning of another thread has no place in the code
            f"drivetrain: rank {rank} has waited {PATIENCE_S:g} s in {what} ({HERE}) for another "
            "rank to call it too. A call that only some ranks make, such as save_checkpoint under "
            "'if trainer.is_global_zero', never returns: let every rank make it.",
            file=sys.stderr,
            flush=True,
        )

    timer = threading.Timer(PATIENCE_S, say)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
