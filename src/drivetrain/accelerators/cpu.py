"""The processor."""

from __future__ import annotations

import resource
import sys
from typing import final

import torch

from drivetrain.accelerators.accelerator import Accelerator
from drivetrain.machine import probe
from drivetrain.resolver.facts import AcceleratorFacts
from drivetrain.resolver.known.accelerators import cpu as known


@final
class CPUAccelerator(Accelerator):
    """The processor: every rank computes on the one ``cpu`` device."""

    name = "cpu"

    def __init__(self) -> None:
        self._times: tuple[float, float] | None = None
        """When `stats` was asked last: seconds that the cores were busy, and seconds of them in all."""

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

    def stats(self, device: torch.device) -> dict[str, float]:  # noqa: ARG002 - one processor
        """Return how busy the machine and how full its memory is; of the time since the last call."""
        found, times, before = probe.processor_stats(), probe.processor_times(), self._times
        if times is None or (before is not None and times[1] <= before[1]):
            return found  # the machine counts in hundredths of a second, and none is over
        self._times = times
        if before is not None:
            found["cpu_percent"] = 100 * (times[0] - before[0]) / (times[1] - before[1])
        return found

    def peak_flops(self, device: torch.device, number: str) -> float | None:  # noqa: ARG002 - as the interface
        """Return None: no one number holds for a processor."""
        return None

    def rng_state(self, device: torch.device) -> torch.Tensor | None:  # noqa: ARG002 - one processor
        """Return None: the CPU generator is saved as torch's own."""
        return None

    def set_rng_state(self, device: torch.device, state: torch.Tensor) -> None:
        """Do nothing, as there is nothing beside torch's own generator."""
