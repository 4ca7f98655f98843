"""NVIDIA GPUs, and AMD GPUs under torch's ROCm build."""

from __future__ import annotations

from typing import final

import torch

from drivetrain.accelerators.accelerator import Accelerator
from drivetrain.accelerators.peaks import peak
from drivetrain.base.errors import BuildError
from drivetrain.machine import probe
from drivetrain.resolver.facts import AcceleratorFacts
from drivetrain.resolver.known.accelerators import cuda as known


@final
class CUDAAccelerator(Accelerator):
    """One GPU a rank."""

    name = "cuda"

    @property
    def facts(self) -> AcceleratorFacts:
        """Return the facts of ``cuda``."""
        return known.FACTS[0]

    def device(self, device_id: int) -> torch.device:
        """Return ``cuda:<device_id>``."""
        return torch.device("cuda", device_id)

    def setup(self, device: torch.device) -> None:
        """Make the GPU the current one, so that collectives and new tensors use it."""
        try:
            torch.cuda.set_device(device)
        except (RuntimeError, AssertionError, AttributeError) as error:  # by how torch was built
            raise BuildError(
                "build.no-device",
                f"this machine cannot use {device}",
                values={"device": str(device), "torch": str(torch.__version__)},
                because=str(error).splitlines()[0] if str(error) else "torch cannot initialise CUDA",
                hint="pass accelerator='cpu', or run on a machine with that GPU and a torch built for it",
            ) from error

    def teardown(self, device: torch.device) -> None:  # noqa: ARG002 - the cache is the process's
        """Give cached memory back, so that the next run or another process can have it."""
        torch.cuda.empty_cache()

    def memory_bytes(self, device: torch.device) -> dict[str, int]:
        """Return bytes in use, the peak, and what torch has reserved."""
        return probe.device_memory("cuda", device.index)

    def stats(self, device: torch.device) -> dict[str, float]:
        """Return what torch's allocator counts: ``allocated_bytes.all.current`` and the like."""
        return {name: float(value) for name, value in torch.cuda.memory_stats(device).items()}

    def peak_flops(self, device: torch.device, number: str) -> float | None:
        """Return what the GPU's data sheet says, without sparsity."""
        return peak(torch.cuda.get_device_name(device), number)

    def rng_state(self, device: torch.device) -> torch.Tensor | None:
        """Return this GPU's generator state."""
        return torch.cuda.get_rng_state(device)

    def set_rng_state(self, device: torch.device, state: torch.Tensor) -> None:
        """Set this GPU's generator state."""
        torch.cuda.set_rng_state(state, device)
