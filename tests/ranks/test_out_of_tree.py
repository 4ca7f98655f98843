"""Hardware that is none of ours trains as ours does; here it computes on the processor."""

from __future__ import annotations

import pytest
import torch

import drivetrain as dt
from tests.loops.models import Regression, loader, quiet

pytestmark = pytest.mark.ranks


class Chip(dt.Accelerator):
    """Says that it has four devices, and notes which of them is set up."""

    name = "chip"
    facts = dt.AcceleratorFacts("chip", "a chip of one's own", count=lambda: 4)

    def __init__(self) -> None:
        self.calls: list[object] = []

    def device(self, device_id: int) -> torch.device:
        self.calls.append(device_id)
        return torch.device("cpu")

    def setup(self, device: torch.device) -> None:
        self.calls.append("setup")

    def teardown(self, device: torch.device) -> None:
        self.calls.append("teardown")

    def memory_bytes(self, device: torch.device) -> dict[str, int]:
        return {}

    def stats(self, device: torch.device) -> dict[str, float]:
        return {}

    def peak_flops(self, device: torch.device, number: str) -> float | None:
        return None

    def rng_state(self, device: torch.device) -> torch.Tensor | None:
        return None

    def set_rng_state(self, device: torch.device, state: torch.Tensor) -> None:
        """Have no state."""


@pytest.mark.parametrize(("devices", "name"), [([3], "single"), ([2, 3], "ddp")])
def test_an_accelerator_of_ones_own_trains_what_the_processor_trains(devices: list[int], name: str) -> None:
    chip, module, reference = Chip(), Regression(), Regression()
    trainer = quiet(accelerator=chip, devices=devices, max_epochs=1)
    assert (trainer.plan.accelerator, trainer.plan.strategy.name) == ("chip", name)
    result = trainer.fit(module, loader(39))
    assert chip.calls == [devices[0], "setup", "teardown"]  # the strategy is given its device and picks none
    assert quiet(devices=len(devices), max_epochs=1).fit(reference, loader(39)).metrics == result.metrics
    for mine, theirs in zip(module.parameters(), reference.parameters(), strict=True):
        assert torch.equal(mine, theirs)
