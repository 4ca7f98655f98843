"""The cores of a machine shared among its ranks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from drivetrain.machine import probe

_VARIABLE = "OMP_NUM_THREADS"


def threads_for(local_world_size: int, variables: Mapping[str, str]) -> int | None:
    """Return how many threads each rank of a machine gets; None when the user has decided."""
    return None if _VARIABLE in variables else max(1, probe.num_cpus() // local_world_size)


def with_threads(variables: Mapping[str, str], num_threads: int | None) -> dict[str, str]:
    """Return the variables that a rank starts with."""
    return dict(variables) if num_threads is None else {**variables, _VARIABLE: str(num_threads)}


@contextmanager
def torch_threads(num_threads: int | None) -> Iterator[None]:
    """Let torch use so many threads in this process, and restore their number at the end."""
    import torch

    before = torch.get_num_threads()
    if num_threads is not None and num_threads != before:
        torch.set_num_threads(num_threads)
    try:
        yield
    finally:
        if torch.get_num_threads() != before:
            torch.set_num_threads(before)
