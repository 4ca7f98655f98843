"""Whether an error says that memory ran out, whatever the device."""

from __future__ import annotations

import torch

_TEXTS = (
    "defaultcpuallocator: can't allocate memory",
    "not enough memory: you tried to allocate",  # the same allocator, on Windows
    "cuda out of memory",
    "hip out of memory",
    "mps backend out of memory",
    "xpu out of memory",
    "resource_exhausted",  # XLA
    "cuda error: out of memory",
    "cublas_status_alloc_failed",
    "cudnn_status_alloc_failed",
    # cuDNN, where it finds no room for any of its algorithms. torch names contiguity beside it.
    "cudnn error: cudnn_status_not_supported",
)
"""What a RuntimeError says, in lower case; torch has a class of its own for some of them only."""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory ran out: on the host, or on a device.

    Libraries tell of it with a RuntimeError of their own words; any other error is none.
    """
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    if not isinstance(error, RuntimeError):
        return False
    said = str(error).lower()
    return any(text in said for text in _TEXTS)
