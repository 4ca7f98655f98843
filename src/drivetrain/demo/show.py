"""The demo's story: plan, train, get killed, resume, test, draw."""

from __future__ import annotations

import math
import shutil
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from drivetrain.base.errors import BuildError, RankFailure
from drivetrain.callbacks.callback import Callback
from drivetrain.callbacks.checkpoint import ModelCheckpoint
from drivetrain.demo.digits import DigitNet, Digits, KillLastRank, LossCurve, PowerCut
from drivetrain.demo.picture import draw
from drivetrain.machine import installed
from drivetrain.machine.snapshot import Machine
from drivetrain.trainer import Trainer

_EPOCHS = 15
_BATCH_SIZE = 32
_SAVE_EVERY = 25
_KILL_AT = 125
_GOAL = 0.97


def run(options: Mapping[str, Any]) -> int:
    """Run the demo; ``out`` is where the picture goes. Return 0 when the accuracy reaches the goal."""
    started = time.monotonic()
    _check_packages()
    folder = Path(tempfile.mkdtemp(prefix="drivetrain-demo-"))
    try:
        accuracy = _story(folder, str(options.get("out") or "digits.png"))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"\n{time.monotonic() - started:.0f} s in all")
    if accuracy < _GOAL:
        print(f"accuracy {accuracy:.4f} is below {_GOAL}: something is wrong")
    return 0 if accuracy >= _GOAL else 1


def _story(folder: Path, out: str) -> float:
    digits = Digits(_BATCH_SIZE)
    flags, num_ranks = _flags()
    num_train = len(digits.images("train")[0])
    num_steps = _EPOCHS * math.ceil(math.ceil(num_train / _BATCH_SIZE) / num_ranks)

    def trainer(*callbacks: Callback) -> Trainer:
        return Trainer(
            **flags,
            max_epochs=_EPOCHS,
            log_every_n_steps=1,
            enable_model_summary=False,
            callbacks=list(callbacks),
        )

    _say("1. The plan")
    saves = ModelCheckpoint(folder, every_n_train_steps=_SAVE_EVERY)
    before, after = LossCurve(), LossCurve()
    first = trainer(before, saves, KillLastRank(_KILL_AT))
    print(first.plan.explain())

    _say(f"2. {_EPOCHS} epochs of {num_train} digits; the last rank is killed at step {_KILL_AT}, mid-epoch")
    torch.manual_seed(0)
    try:
        first.fit(DigitNet(num_steps), datamodule=digits)
    except (RankFailure, PowerCut) as failure:
        print(f"stopped: {str(failure).splitlines()[0] if str(failure) else 'the only rank was stopped'}")

    _say("3. A new model goes on from the checkpoint, at the exact step")
    path = next(folder.glob("*.ckpt"))
    model = DigitNet(num_steps)
    second = trainer(after)
    result = second.fit(model, datamodule=digits, ckpt_path=path)
    print(f"resumed {path.name}: next step {after.points[0][0]}, last step {result.steps} of {num_steps}")

    _say("4. The test, every held-out digit once")
    accuracy = second.test(model, datamodule=digits)[0]["accuracy"]
    images, truth = digits.images("test")
    print(f"accuracy {accuracy:.4f} on {len(truth)} held-out digits")
    read = torch.cat(second.predict(model, datamodule=digits))
    draw(before.points, after.points, images, truth, read, out)
    print(f"picture  {Path(out).resolve()}")
    return accuracy


def _flags() -> tuple[dict[str, Any], int]:
    """Return the flags, and how many ranks they mean: two GPUs if there are, one GPU, else two processes."""
    num_gpus = Machine.probe().count("cuda")
    devices = min(2, num_gpus) or 2
    return {"accelerator": "gpu" if num_gpus else "cpu", "devices": devices, "strategy": "ddp"}, devices


def _check_packages() -> None:
    missing = [name for name in ("scikit-learn", "matplotlib") if installed.version(name) is None]
    if missing:
        raise BuildError(
            "build.package-missing",
            f"the demo needs {' and '.join(missing)}",
            values={"missing": missing},
            because="scikit-learn ships the digits, matplotlib draws the picture",
            hint="pip install 'drivetrain[demo]'",
        )


def _say(heading: str) -> None:
    print(f"\n== {heading}", flush=True)
