from __future__ import annotations

import numpy as np
import pytest
import torch

from drivetrain.accelerators.memory import is_out_of_memory


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
        torch.cuda.OutOfMemoryError("any words"),
        MemoryError(),
        RuntimeError(
            "[enforce fail at alloc_cpu.cpp:117] err == 0. DefaultCPUAllocator: can't allocate memory: you"
        ),
        RuntimeError("MPS backend out of memory (MPS allocated: 17.00 GB, max allowed: 18.13 GB)."),
        RuntimeError("Bad StatusOr access: RESOURCE_EXHAUSTED: Error allocating device buffer"),
        RuntimeError(
            "cuDNN error: CUDNN_STATUS_NOT_SUPPORTED. This error may appear if you passed in a non-"
            "contiguous input."
        ),
        RuntimeError("CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
    ],
)
def test_memory_that_ran_out(error: BaseException) -> None:
    assert is_out_of_memory(error)


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)"),
        RuntimeError("CUDA error: device-side assert triggered"),
        ValueError("CUDA out of memory"),  # no library says it so
        RuntimeError(),
        KeyboardInterrupt(),
    ],
)
def test_any_other_error(error: BaseException) -> None:
    assert not is_out_of_memory(error)


def test_what_this_machine_really_raises() -> None:
    with pytest.raises(RuntimeError) as raised:
        torch.empty(2**60, dtype=torch.uint8)
    assert is_out_of_memory(raised.value), str(raised.value)
    with pytest.raises(MemoryError) as of_host:
        np.empty(2**60, dtype="uint8")
    assert is_out_of_memory(of_host.value)
