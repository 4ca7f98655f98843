"""Runs that save after every step and are killed at random moments: ``kill_script.py FOLDER KILLS SEED``.

Each attempt is a fork of this process, which has loaded torch and computed nothing. After each kill every
checkpoint in the folder has to be whole; the next attempt goes on from one of them. A run that comes to its
end is compared with one that nobody disturbed, and another one begins, until there were enough kills.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader

import drivetrain as dt
from drivetrain.checkpoint_io.entry import Entry
from drivetrain.loops.kept import check_kept
from tests.loops.models import Noisy, differing

LOAD = dt.LocalCheckpointIO().load
LONGEST_S = 1.0
"""Not quite as long as a whole run takes."""


class Net(dt.Module):
    """Large enough that to write it takes a part of each step."""

    def __init__(self) -> None:
        super().__init__()
        self.net = torch.nn.Sequential(
            torch.nn.Linear(4, 256), torch.nn.Dropout(0.3), torch.nn.Linear(256, 256), torch.nn.Linear(256, 1)
        )

    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        x, y = batch
        loss = ((self.net(x) - y) ** 2).mean() + 0.01 * random.random()
        self.log("loss", loss, on_step=True, on_epoch=True)
        return loss

    def predict_step(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> torch.Tensor:
        return self.net(batch[0])

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.AdamW(self.parameters(), lr=0.01)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.9)]


def fit(folder: Path, path: Path | None, *, is_async: bool) -> None:
    """Train to the end and write it as ``end.pt``; saves after each step."""
    seed = 1 if path is None else 2  # a resumed run must not depend on what came before it
    torch.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002 - the global generator is what users' augmentations draw from
    trainer = dt.Trainer(
        accelerator="cpu",
        devices=1,
        max_epochs=3,
        callbacks=[dt.ModelCheckpoint(folder, every_n_train_steps=1, save_top_k=3, save_last=True)],
        plugins=[dt.AsyncCheckpointIO()] if is_async else None,
        enable_progress_bar=False,
        enable_model_summary=False,
        log_every_n_steps=1,
    )
    trainer.fit(Net(), DataLoader(Noisy(), 4, shuffle=True), ckpt_path=path)
    trainer.save_checkpoint(folder / "end.pt")


def warm_up() -> None:
    """Load what a run loads, once for all attempts; nothing is computed that a fork could not go on from."""
    optimizers, _ = Net().configure_optimizers()
    optimizers[0].zero_grad()
    optimizers[0].step()
    dt.Trainer(accelerator="cpu", devices=1, enable_progress_bar=False).predict(
        Net(), DataLoader(Noisy(), 44)
    )


def forked(call: Callable[[], None]) -> int:
    """Start a process that makes a call; return its id."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            call()
            code = 0
        finally:
            os._exit(code)
    return child


def whole(folder: Path) -> list[Path]:
    """Return the checkpoints of a folder, the oldest first; fail if one of them is not whole."""
    found = []
    for path in folder.glob("*.ckpt"):
        checkpoint = LOAD(path)
        check_kept(Entry(checkpoint, path))
        found.append((checkpoint["global_step"], path))
    return [path for _, path in sorted(found)]


def is_equal(folder: Path, other: Path) -> bool:
    """Whether two runs ended alike; the names of the files that they saved may differ."""
    ends = [torch.load(one / "end.pt", weights_only=True) for one in (folder, other)]
    for end in ends:
        end["callbacks"] = {
            key: kept for key, kept in end["callbacks"].items() if "ModelCheckpoint" not in key
        }
        end["plan"] = {}
    return not differing(*ends)


def main(folder: Path, wanted: int, seed: int) -> None:
    draw = random.Random(seed)
    counts = {"kills": 0, "within_a_write": 0, "before_the_first": 0, "runs": 0, "checkpoints_read": 0}
    warm_up()
    for is_async in (False, True):
        undisturbed = folder / f"undisturbed{is_async}"
        _, status = os.waitpid(forked(lambda: fit(undisturbed, None, is_async=is_async)), 0)  # noqa: B023 - called now
        assert status == 0
    assert is_equal(folder / "undisturbedFalse", folder / "undisturbedTrue")
    while counts["kills"] < wanted:
        counts["runs"] += 1
        run, is_async = folder / f"run{counts['runs']}", counts["runs"] % 2 == 0
        run.mkdir()
        while True:
            there = whole(run)
            counts["checkpoints_read"] += len(there)
            path = (
                draw.choice([there[-1], *(one for one in there if one.name == "last.ckpt")])
                if there
                else None
            )
            child = forked(lambda: fit(run, path, is_async=is_async))  # noqa: B023 - called now
            if counts["kills"] < wanted:
                before = set(run.glob(".*.tmp"))
                time.sleep(draw.uniform(0, LONGEST_S))
                os.kill(child, signal.SIGKILL)
                _, status = os.waitpid(child, 0)
                was_killed = os.WIFSIGNALED(status)
                counts["kills"] += was_killed
                counts["within_a_write"] += was_killed and bool(set(run.glob(".*.tmp")) - before)
                counts["before_the_first"] += was_killed and not there and not whole(run)
                if was_killed:
                    continue
            else:
                _, status = os.waitpid(child, 0)
            assert status == 0, "an attempt failed by itself"
            assert is_equal(run, folder / "undisturbedFalse"), f"{run} ended in another way"
            break
    print(json.dumps(counts))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
