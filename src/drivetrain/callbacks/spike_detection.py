"""SpikeDetection: ends a fit when the loss jumps, and writes down at which batch."""

from __future__ import annotations

import json
import math
import os
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any, final

import torch

from drivetrain.base.errors import SpikeError
from drivetrain.callbacks.callback import Callback
from drivetrain.callbacks.refusal import bad_argument, check_flag, check_mode, check_number
from drivetrain.checkpoint_io.entry import Entry
from drivetrain.modules import Module, Run

_FILE = "skip_batches.json"


@final
class SpikeDetection(Callback):
    """Raise `SpikeError` when a step's loss is far worse than the mean of the last ``window`` losses.

    Far is at least ``atol``, and at least ``rtol`` times the mean's size; a loss that is not finite is a
    spike too, unless ``finite_only`` is off. The first ``warmup`` losses are not compared. The batch is
    written to ``exclude_batches_path`` (``skip_batches.json`` in the root folder) with what stands there
    already. The step has been taken when the loss is seen, but nothing of it was saved: go on from the last
    checkpoint with data that leaves the batches out. Reading each loss holds the device up each step.

    Collectives:
        with several ranks, an all_gather of 16 bytes each step; every rank must call.
    Raises:
        SpikeError [callback.spike]: on every rank at once.
        ModuleError [callback.bad-argument]: an argument has a value that it cannot have.
    """

    acts_in_fit_only = True

    def __init__(
        self,
        mode: str = "min",
        window: int = 10,
        warmup: int = 1,
        atol: float | None = None,
        rtol: float | None = 2.0,
        exclude_batches_path: str | os.PathLike[str] | None = None,
        finite_only: bool = True,
    ) -> None:
        self.mode, self.finite_only = check_mode(self, mode), check_flag(self, "finite_only", finite_only)
        for name, value, least in (("window", window, 1), ("warmup", warmup, 0)):
            if type(value) is not int or value < least:
                raise bad_argument(self, name, value, f"an int of {least} or more")
        self.atol = None if atol is None else check_number(self, "atol", atol, least=0.0)
        self.rtol = None if rtol is None else check_number(self, "rtol", rtol, least=0.0)
        if atol is None and rtol is None:
            raise bad_argument(self, "rtol", rtol, "None only with an atol: something says what a spike is")
        self.window, self.warmup = window, warmup
        self.exclude_batches_path = None if exclude_batches_path is None else os.fspath(exclude_batches_path)
        self.bad_batches: list[dict[str, Any]] = []
        """What was written: epoch, batch_idx, global_step, rank and loss of each spike."""
        self._losses: deque[float] = deque(maxlen=window)
        self._num_seen = 0

    def state_dict(self) -> dict[str, Any]:
        """Return the losses that the next is compared with: those of rank 0."""
        return {"losses": list(self._losses), "num_seen": self._num_seen}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on with the losses."""
        Entry(state_dict, "", f"callbacks.{self.state_key}").check_like({"losses": [], "num_seen": 0})
        self._losses = deque(map(float, state_dict["losses"]), maxlen=self.window)
        self._num_seen = state_dict["num_seen"]

    def setup(self, trainer: Run, module: Module, stage: str) -> None:
        """A fit begins anew, unless a checkpoint has the losses."""
        if stage == "fit":
            self._losses.clear()
            self._num_seen = 0

    def on_train_batch_end(
        self, trainer: Run, module: Module, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Compare the loss."""
        found = outputs.get("loss") if isinstance(outputs, Mapping) else outputs
        value = found.item() if isinstance(found, torch.Tensor) else found
        loss = math.nan if value is None else float(value)
        losses = _gathered(trainer, loss, is_there=found is not None)
        if not losses:
            return
        spikes = [rank for rank, one in losses.items() if self._is_spike(one)]
        if not spikes:
            self._remember(losses)
            return
        place = {"epoch": trainer.current_epoch, "batch_idx": batch_idx, "global_step": trainer.global_step}
        self.bad_batches += [{**place, "rank": rank, "loss": losses[rank]} for rank in spikes]
        path = self.exclude_batches_path or str(Path(trainer.default_root_dir) / _FILE)
        if trainer.is_global_zero:
            _write(path, self.bad_batches)
        raise SpikeError(
            "callback.spike",
            f"the loss jumped to {losses[spikes[0]]:.5g} at batch {batch_idx}",
            values={**place, "rank": spikes, "loss": losses[spikes[0]], "mean": self._mean(), "file": path},
            because=f"a spike is a loss that is not finite, or worse than the mean of the last {self.window}"
            f" by atol={self.atol} and rtol={self.rtol}",
            hint="go on from the last checkpoint with data that leaves the batch out, or raise rtol",
        )

    def _mean(self) -> float:
        return sum(self._losses) / len(self._losses) if self._losses else math.nan

    def _is_spike(self, loss: float) -> bool:
        if not math.isfinite(loss):
            return self.finite_only
        if self._num_seen < self.warmup or not self._losses:
            return False
        mean = self._mean()
        worse = loss - mean if self.mode == "min" else mean - loss
        bounds = [
            0.0 if self.atol is None else self.atol,
            0.0 if self.rtol is None else self.rtol * abs(mean),
        ]
        return worse > 0 and worse >= max(bounds)

    def _remember(self, losses: Mapping[int, float]) -> None:
        self._num_seen += 1
        mean = sum(losses.values()) / len(losses)
        if math.isfinite(mean):
            self._losses.append(mean)


def _gathered(trainer: Run, loss: float, *, is_there: bool) -> dict[int, float]:
    """Return the losses of the ranks that have one."""
    if trainer.world_size == 1:
        return {0: loss} if is_there else {}
    pair = torch.tensor([loss, float(is_there)], dtype=torch.float64, device=trainer.strategy.device)
    pairs = torch.stack(trainer.collectives.all_gather(pair)).tolist()
    return {rank: one for rank, (one, has_one) in enumerate(pairs) if has_one}


def _write(path: str, batches: list[dict[str, Any]]) -> None:
    """Add to what the file has, whole or not at all: a run that is repeated finds earlier spikes too."""
    file = Path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    before = json.loads(file.read_text()) if file.exists() else []
    part = file.with_name(f".{file.name}.tmp")
    part.write_text(json.dumps([*before, *(one for one in batches if one not in before)], indent=1) + "\n")
    part.replace(file)
