from __future__ import annotations

from collections import namedtuple
from dataclasses import dataclass

import pytest
import torch

import drivetrain as dt
from drivetrain.accelerators import CPUAccelerator, CUDAAccelerator

META = torch.device("meta")
Pair = namedtuple("Pair", "x y")  # noqa: PYI024 - what users write


@dataclass(frozen=True)
class Frozen:
    name: str
    x: torch.Tensor


class Encoding(dict):
    def to(self, device):
        return {"moved": device}


def test_every_nesting_is_moved_and_keeps_its_kind() -> None:
    x = torch.ones(2)
    batch = {"a": [x, (x, 1)], "pair": Pair(x, "text"), "frozen": Frozen("n", x), "encoding": Encoding()}
    moved = CPUAccelerator().move(batch, META)
    assert moved["a"][0].device == moved["a"][1][0].device == META
    assert type(moved["pair"]) is Pair
    assert moved["pair"].x.device == META
    assert moved["pair"].y == "text"
    assert moved["frozen"].x.device == META
    assert moved["frozen"].name == "n"
    assert moved["encoding"] == {"moved": META}
    assert batch["frozen"].x.device.type == "cpu"


def test_a_batch_that_is_there_already_is_itself() -> None:
    batch = [torch.ones(2), {"y": (torch.ones(1),)}]
    assert CPUAccelerator().move(batch, torch.device("cpu")) is batch


def test_the_cpu_is_one_device_for_every_rank() -> None:
    cpu = CPUAccelerator()
    assert cpu.device(3) == torch.device("cpu")
    assert cpu.memory_bytes(cpu.device(0))["peak"] > 1e6
    assert cpu.rng_state(cpu.device(0)) is None


@pytest.mark.skipif(dt.Machine.probe().count("cuda") > 0, reason="needs a machine without CUDA")
def test_a_gpu_that_is_not_there_is_a_clear_error() -> None:
    cuda = CUDAAccelerator()
    assert cuda.device(1) == torch.device("cuda", 1)
    with pytest.raises(dt.BuildError, match=r"build.no-device\] this machine cannot use cuda:0"):
        cuda.setup(cuda.device(0))


@pytest.mark.skipif(dt.Machine.probe().count("cuda") == 0, reason="needs a CUDA device")
def test_a_gpu_moves_measures_and_repeats() -> None:
    cuda = CUDAAccelerator()
    device = cuda.device(0)
    cuda.setup(device)
    assert cuda.move(torch.ones(2).pin_memory(), device).device == device
    assert cuda.memory_bytes(device)["peak"] > 0
    state = cuda.rng_state(device)
    first = torch.rand(3, device=device)
    cuda.set_rng_state(device, state)
    assert torch.equal(torch.rand(3, device=device), first)
    cuda.teardown(device)


def test_the_cpu_tells_how_busy_and_how_full_it_is() -> None:
    accelerator, cpu = dt.CPUAccelerator(), torch.device("cpu")
    first = accelerator.stats(cpu)
    assert set(first) == {"cpu_vm_percent", "cpu_swap_percent", "cpu_process_bytes"}
    assert first["cpu_process_bytes"] > 2**20
    accelerator._times = (accelerator._times[0] - 30.0, accelerator._times[1] - 60.0)
    second = accelerator.stats(cpu)
    assert second["cpu_percent"] == pytest.approx(50, abs=5)
    assert all(0 <= value <= 100 for name, value in second.items() if name.endswith("percent"))
    assert accelerator.peak_flops(cpu, "float32") is None
