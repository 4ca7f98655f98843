"""The processor."""

from __future__ import annotations

import resource
import sys
from typing import final

import torch

from drivetrain.accelerators.accelerator import Accelerator
from drivetrain.resolver.facts import AcceleratorFacts
from drivetrain.resolver.known.accelerators import cpu as known


@final
class CPUAccelerator(Accelerator):
    """The processor: every rank computes on the one ``cpu`` device."""

    name = "cpu"

    @property
    def facts(self) -> AcceleratorFacts:
        """Return the facts of ``cpu``."""
        return known.FACTS[0]

    def device(self, device_id: int) -> torch.device:  # noqa: ARG002 - on CPU an id is a process's number
        """Return ``cpu``, whatever the process's number."""
        return torch.device("cpu")

    def setup(self, device: torch.device) -> None:
        """Do nothing: the processor is there."""

    def teardown(self, device: torch.device) -> None:
        """Do nothing: nothing is cached."""

    def memory_bytes(self, device: torch.device) -> dict[str, int]:  # noqa: ARG002 - one processor
        """Return the most memory that this process has held, in bytes."""
        unit = 1 if sys.platform == "darwin" else 1024
        return {"peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit}

    def rng_state(self, device: torch.device) -> torch.Tensor | None:  # noqa: ARG002 - one processor
        """Return None: the CPU generator is saved as torch's own."""
        return None

    def set_rng_state(self, device: torch.device, state: torch.Tensor) -> None:
        """Do nothing, as there is nothing beside torch's own generator."""
