from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

import drivetrain as dt
from tests.loops.models import Noisy, Regression, loader, quiet

COUNTS = {"forgotten": 0}


class Forgetful(Regression):
    """Its loss depends on a number that no checkpoint holds."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        self.calls += 1
        return super().training_step(batch, batch_idx) * self.calls


class Counting:
    """A sampler whose order depends on how often it was read, which no checkpoint holds."""

    def __init__(self) -> None:
        self.epochs = 0

    def __len__(self) -> int:
        return 44

    def __iter__(self) -> Any:
        self.epochs += 1
        return iter(random.Random(self.epochs).sample(range(44), 44))


def test_a_run_with_everything_that_is_kept_is_exact(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    module = Regression(dropout=0.3)
    before = torch.get_rng_state()
    weights = [one.detach().clone() for one in module.parameters()]
    saves = dt.ModelCheckpoint(tmp_path / "never")
    trainer = quiet(max_epochs=1, callbacks=[saves, dt.EarlyStopping("val")], logger=True)
    report = trainer.verify_resume(module, DataLoader(Noisy(), 4, shuffle=True), DataLoader(Noisy(), 5))
    assert report.is_exact, report
    assert str(report) == "20 steps, cut off after 10 and resumed: equal bit by bit"
    assert all(torch.equal(one, other) for one, other in zip(weights, module.parameters(), strict=True))
    assert torch.equal(torch.get_rng_state(), before)
    assert list(tmp_path.iterdir()) == []


def test_the_first_difference_is_named() -> None:
    report = quiet().verify_resume(Forgetful(), loader(), steps=6)
    assert not report.is_exact
    assert "net.0.weight" in report.difference
    assert "largest difference" in report.difference

    report = quiet().verify_resume(Regression(), DataLoader(Noisy(), 4, sampler=Counting()), steps=30)
    assert report.difference == "batch 15 is another one"


def test_a_run_that_is_not_the_same_twice_is_told_apart() -> None:
    class Unrepeatable(Regression):
        def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
            COUNTS["forgotten"] += 1
            return super().training_step(batch, batch_idx) * COUNTS["forgotten"]

    report = quiet().verify_resume(Unrepeatable(), loader(), steps=4)
    assert report.difference.startswith("the same run twice, not resumed yet, is not the same: ")


@pytest.mark.ranks
def test_on_two_ranks() -> None:
    trainer = quiet(devices=2, strategy="ddp")
    report = trainer.verify_resume(Regression(dropout=0.3), DataLoader(Noisy(), 4, shuffle=True), steps=8)
    assert report.is_exact, report


@pytest.mark.parametrize("steps", [1, 0, 2.5, True])
def test_a_run_has_a_middle(steps: Any) -> None:
    with pytest.raises(dt.TrainerError, match=r"trainer.bad-argument"):
        quiet().verify_resume(Regression(), loader(), steps=steps)
