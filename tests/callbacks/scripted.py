"""A module whose logged values are given, so that what callbacks decide by them is known beforehand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from tests.loops.models import Regression


def names(folder: Path) -> list[str]:
    """Return the names in a folder, in order."""
    return sorted(path.name for path in folder.iterdir())


class Scripted(Regression):
    """Logs ``val`` in validation and ``acc`` in training, by epoch, from lists."""

    def __init__(self, val: Sequence[float] = (), acc: Sequence[float] = ()) -> None:
        super().__init__()
        self.val, self.acc = list(val), list(acc)

    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        loss = super().training_step(batch, batch_idx)
        if self.acc:
            self.log("acc", self.acc[self.current_epoch], on_step=False, on_epoch=True)
        return loss

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        if self.val:
            self.log("val", self.val[self.current_epoch])
