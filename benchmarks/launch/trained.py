"""A fit of one step: ``trained.py drivetrain fork``, ``trained.py lightning ddp_spawn``."""

from __future__ import annotations

import logging
import sys
import warnings
from typing import Any

import torch
from task import RANKS, arrived, loader, model

if sys.argv[1] == "drivetrain":
    import drivetrain as library

    Base: Any = library.Module
    FLAGS: dict[str, Any] = {"strategy": "ddp", "launcher": sys.argv[2]}
else:
    import lightning.pytorch as library  # type: ignore[no-redef]  # one or the other

    Base, FLAGS = library.LightningModule, {"strategy": sys.argv[2]}  # type: ignore[attr-defined]  # Lightning's


class Net(Base):  # type: ignore[misc]  # the base is each library's
    """The model, and when it is in its step."""

    def __init__(self) -> None:
        super().__init__()
        self.net = model()

    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:  # noqa: ANN401, ARG002 - the interface's
        """Note the time and return a loss."""
        arrived()
        x, y = batch
        loss: torch.Tensor = (self.net(x) - y).square().mean()
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return SGD."""
        return torch.optim.SGD(self.parameters(), lr=0.1)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    off = ("logger", "enable_progress_bar", "enable_model_summary", "enable_checkpointing")
    trainer = library.Trainer(
        accelerator="cpu", devices=RANKS, max_steps=1, **dict.fromkeys(off, False), **FLAGS
    )
    trainer.fit(Net(), loader())
