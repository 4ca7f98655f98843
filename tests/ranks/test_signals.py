"""A signal to one rank: all save at the same step, and the run ends as schedulers expect it."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

import drivetrain as dt
from tests.loops.models import Noisy, Regression, differing, loader, quiet

pytestmark = pytest.mark.ranks


class Sends(dt.Callback):
    """Sends this process a signal at a step, on one rank."""

    def __init__(self, rank: int, step: int, number: int) -> None:
        self.rank, self.step, self.number = rank, step, number

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        if (trainer.global_rank, trainer.global_step) == (self.rank, self.step):
            os.kill(os.getpid(), self.number)


def fit(folder: Path, world_size: int, *callbacks: dt.Callback, **kwargs: Any) -> dict[str, Any]:
    torch.manual_seed(5)
    flags: dict[str, Any] = {"devices": world_size, "strategy": "ddp", "max_epochs": 2}
    trainer = quiet(**flags, callbacks=[*callbacks], default_root_dir=folder)
    trainer.fit(Regression(dropout=0.2), DataLoader(Noisy(), 1, shuffle=True), loader(9), **kwargs)
    trainer.save_checkpoint(folder / "end.ckpt")
    return torch.load(folder / "end.ckpt", weights_only=True)


@pytest.mark.parametrize(
    ("world_size", "rank", "number", "code"),
    [(1, 0, signal.SIGUSR1, 138), (2, 1, signal.SIGTERM, 143), (2, 0, signal.SIGTERM, 143)],
)
def test_all_save_and_leave_and_the_run_goes_on_exactly(
    tmp_path: Path, world_size: int, rank: int, number: int, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    before = signal.getsignal(number)
    with pytest.raises(SystemExit) as caught:
        fit(tmp_path, world_size, Sends(rank, 5, number))
    assert caught.value.code == code
    assert signal.getsignal(number) == before
    path = tmp_path / "checkpoints" / "signal.ckpt"
    step = torch.load(path, weights_only=True)["global_step"]
    assert step == 5 if world_size == 1 else 5 <= step < 40
    assert (
        f"{signal.Signals(number).name}: left after step {step}, saved as {path}" in capsys.readouterr().out
    )
    assert differing(fit(tmp_path, world_size), fit(tmp_path, world_size, ckpt_path=path)) == []


def test_a_signal_at_the_last_steps_is_not_lost(tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as caught:
        fit(tmp_path, 2, Sends(1, 44, signal.SIGTERM))  # the very last step
    assert caught.value.code == 143
    path = tmp_path / "checkpoints" / "signal.ckpt"
    assert torch.load(path, weights_only=True)["global_step"] == 44
    assert differing(fit(tmp_path, 2), fit(tmp_path, 2, ckpt_path=path)) == []


@pytest.mark.parametrize("world_size", [1, 2])
def test_a_signal_in_the_last_validation_ends_the_run_too(tmp_path: Path, world_size: int) -> None:
    class SendsLate(dt.Callback):
        def on_validation_end(self, trainer, module):
            if trainer.current_epoch == 1 and trainer.global_rank == world_size - 1:
                os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(SystemExit) as caught:
        fit(tmp_path, world_size, SendsLate())
    assert caught.value.code == 143
    kept = torch.load(tmp_path / "checkpoints" / "signal.ckpt", weights_only=True)
    assert (kept["epoch"], kept["global_step"]) == (2, 88 // world_size)


def test_a_handler_of_ones_own_stays() -> None:
    seen: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: seen.append(number))
    try:
        result = quiet(max_epochs=1, callbacks=[Sends(0, 2, signal.SIGTERM)]).fit(Regression(), loader(16))
    finally:
        signal.signal(signal.SIGTERM, before)
    assert seen == [signal.SIGTERM]
    assert result.steps == 4


@pytest.mark.parametrize("world_size", [1, 2])
def test_a_signal_in_the_sanity_check_ends_the_run_after_its_first_steps(
    tmp_path: Path, world_size: int
) -> None:
    class SendsEarly(dt.Callback):
        def on_sanity_check_start(self, trainer, module):
            if trainer.global_rank == world_size - 1:
                os.kill(os.getpid(), signal.SIGTERM)

    trainer = quiet(
        devices=world_size,
        strategy="ddp",
        max_epochs=2,
        num_sanity_val_steps=2,
        callbacks=[SendsEarly()],
        default_root_dir=tmp_path,
    )
    with pytest.raises(SystemExit) as caught:
        trainer.fit(Regression(), loader(), loader(9))
    assert caught.value.code == 143
    saved = torch.load(tmp_path / "checkpoints" / "signal.ckpt", weights_only=True)
    assert 1 <= saved["global_step"] < 20
