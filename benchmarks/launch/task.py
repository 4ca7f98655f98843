"""What each way to start two ranks trains: one step of a small model. Says when a rank is in it."""

from __future__ import annotations

import os
import time
from pathlib import Path

import torch

RANKS = 2


def model() -> torch.nn.Module:
    """Return the model: 64 inputs, 64 hidden units, 1 output."""
    return torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))


def loader() -> torch.utils.data.DataLoader[tuple[torch.Tensor, ...]]:
    """Return one batch a rank."""
    return torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(torch.zeros(64, 64), torch.zeros(64, 1)), batch_size=32
    )


def arrived() -> None:
    """Note the time, in seconds since the epoch, as this process's."""
    (Path(os.environ["BENCH_FOLDER"]) / str(os.getpid())).write_text(repr(time.time()))
