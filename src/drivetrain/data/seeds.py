"""Seeds that depend on nothing but what is named: (seed, epoch, batch, ...)."""

from __future__ import annotations

import contextlib
import hashlib
import random
import sys
from collections.abc import Iterable, Iterator

import torch

from drivetrain.base.errors import DataError


def mix(*parts: int) -> int:
    """Return a number below 2**63 that any change of any part changes."""
    text = ",".join(map(str, parts)).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big") >> 1


def seed_all(seed: int) -> None:
    """Seed python's, torch's and, where it is imported, numpy's global generators."""
    random.seed(seed)
    torch.default_generator.manual_seed(seed)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed % 2**32)


def seed_everything(seed: int = 0, workers: bool = True) -> int:  # noqa: ARG001 - workers' seeds always follow
    """Seed python's, torch's (on all devices) and numpy's global generators; return the seed.

    Raises:
        DataError [data.seed]: not an int from 0 to 2**32 - 1.
    """
    if type(seed) is not int or not 0 <= seed < 2**32:
        raise DataError(
            "data.seed",
            f"seed_everything({seed!r})",
            values={"seed": seed},
            because="numpy takes seeds from 0 to 2**32 - 1",
            hint="pass an int such as 42",
        )
    torch.manual_seed(seed)
    seed_all(seed)
    return seed


@contextlib.contextmanager
def seeded(seed: int, generators: Iterable[torch.Generator] = ()) -> Iterator[None]:
    """Run a block under a seed and leave every generator as it was found.

    A generator in ``generators`` was seeded by the user; that seed stays a part of its stream.
    """
    numpy = sys.modules.get("numpy")
    states = (
        random.getstate(),
        torch.default_generator.get_state(),
        numpy.random.get_state() if numpy else None,
    )
    own = [(generator, generator.get_state(), generator.initial_seed()) for generator in generators]
    seed_all(seed)
    for generator, _, first in own:
        generator.manual_seed(mix(seed, first))
    try:
        yield
    finally:
        random.setstate(states[0])
        torch.default_generator.set_state(states[1])
        if numpy is not None and states[2] is not None:
            numpy.random.set_state(states[2])
        for generator, state, _ in own:
            generator.set_state(state)
