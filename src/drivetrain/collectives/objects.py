"""Python objects as byte tensors, with cloudpickle: classes of the user's script may take part.

A class of ``__main__`` reaches the other ranks by value. Cloudpickle remembers where each came
from, so an object that travels back has the very class that the script defined.
"""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


def to_bytes(value: object, device: torch.device) -> torch.Tensor:
    """Return the object's pickle as a tensor.

    Shapes:
        returns: [number of bytes], uint8, on the device.
    """
    import cloudpickle
    import torch

    return torch.frombuffer(bytearray(cloudpickle.dumps(value)), dtype=torch.uint8).to(device)


def from_bytes(data: torch.Tensor) -> Any:  # noqa: ANN401 - whatever was pickled
    """Return the object that `to_bytes` pickled on another rank of this run.

    Shapes:
        data: [number of bytes], uint8.
    """
    return pickle.loads(data.cpu().numpy().tobytes())  # noqa: S301 - from our own ranks only
