from __future__ import annotations

import random

import numpy as np
import torch

from drivetrain.data.seeds import mix, seeded


def test_every_part_changes_the_seed() -> None:
    found = {mix(), mix(0), mix(1), mix(0, 0), mix(0, 1), mix(1, 0), mix(10), mix(1, 0, 0)}
    assert len(found) == 8
    assert all(0 <= seed < 2**63 for seed in found)


def test_a_block_is_repeatable_and_leaves_no_trace() -> None:
    own = torch.Generator().manual_seed(5)

    def drawn() -> list[float]:
        with seeded(3, [own]):
            return [
                random.random(),
                torch.rand(()).item(),
                np.random.rand(),  # noqa: NPY002 - the global generator
                torch.rand((), generator=own).item(),
            ]

    first, before = drawn(), (random.getstate(), torch.get_rng_state(), own.get_state())
    assert drawn() == first
    assert random.getstate() == before[0]
    assert torch.equal(torch.get_rng_state(), before[1])
    assert torch.equal(own.get_state(), before[2])
    assert own.initial_seed() == 5
