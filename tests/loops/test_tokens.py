"""Bounds and intervals in tokens, as the module counts them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import drivetrain as dt
from tests.loops.models import quiet

LENGTHS = (3, 5, 2, 7, 4)
TEXTS = [torch.ones(2, length) for length in LENGTHS]  # 6, 10, 4, 14, 8 tokens; 42 an epoch


class Counting(dt.Module):
    def __init__(self, counted: Any = None) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(()))
        self.counted, self.seen = counted, []

    def training_step(self, batch: torch.Tensor, batch_idx: int) -> torch.Tensor:
        self.seen.append(batch_idx)
        return (self.scale * batch).mean()

    def validation_step(self, batch: torch.Tensor, batch_idx: int) -> None:
        self.seen.append("v")

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)

    def count_tokens(self, batch: torch.Tensor) -> Any:
        return batch.numel() if self.counted is None else self.counted


class Uncounted(Counting):
    count_tokens = dt.Module.count_tokens


@pytest.mark.parametrize(
    ("bound", "steps", "tokens"), [("1 tokens", 1, 6), ("20 tokens", 3, 20), ("5e1 tokens", 7, 58)]
)
def test_a_fit_ends_with_the_step_that_reaches_the_bound(bound: str, steps: int, tokens: int) -> None:
    result = quiet(max_steps=bound).fit(Counting(), TEXTS)
    assert (result.steps, result.tokens) == (steps, tokens)


def test_validations_and_checkpoints_come_when_tokens_passed_a_multiple(tmp_path: Path) -> None:
    module = Counting()
    saver = dt.ModelCheckpoint(tmp_path, "{step}", every_n_train_steps="20 tokens", save_top_k=-1)
    quiet(max_epochs=2, val_check_interval="15 tokens", callbacks=saver).fit(module, TEXTS, TEXTS[:1])
    assert module.seen == [0, 1, "v", 2, 3, "v", 4, 0, "v", 1, 2, "v", 3, "v", 4]
    assert sorted(int(one.stem.split("=")[1]) for one in tmp_path.glob("*.ckpt")) == [3, 5, 8, 10]


def test_a_run_that_goes_on_counts_on(tmp_path: Path) -> None:
    trainer = quiet(max_steps=3)
    trainer.fit(Counting(), TEXTS)
    assert trainer.tokens_seen == 20
    trainer.save_checkpoint(tmp_path / "three.ckpt")
    result = quiet(max_steps="42 tokens").fit(Counting(), TEXTS, ckpt_path=tmp_path / "three.ckpt")
    assert (result.steps, result.tokens, result.steps_here) == (5, 42, 2)


def test_ranks_count_together_and_a_stand_in_counts_nothing() -> None:
    trainer = quiet(devices=2, launcher="fork", max_epochs=1)
    result = trainer.fit(Counting(), TEXTS)
    assert (result.steps, result.tokens) == (3, 42)
    result = quiet(devices=2, launcher="fork", max_steps="17 tokens").fit(Counting(), TEXTS)
    assert (result.steps, result.tokens) == (2, 34)


def test_a_step_that_is_left_out_counts_nothing() -> None:
    class Leaving(Counting):
        def on_train_batch_start(self, batch: torch.Tensor, batch_idx: int) -> int | None:
            return -1 if batch_idx == 1 else None

    class Skipping(Counting):
        def training_step(self, batch: torch.Tensor, batch_idx: int) -> Any:
            return None if batch_idx == 1 else super().training_step(batch, batch_idx)

    assert quiet(max_epochs=1).fit(Leaving(), TEXTS).tokens == 6
    assert quiet(max_epochs=1).fit(Skipping(), TEXTS).tokens == 32
    assert quiet(max_epochs=1, devices=2, launcher="fork").fit(Leaving(), TEXTS).tokens == 16


def test_windows_of_several_batches_count_each() -> None:
    result = quiet(max_epochs=1, accumulate_grad_batches=2).fit(Counting(), TEXTS)
    assert (result.steps, result.tokens) == (3, 42)


def test_without_a_count_nothing_is_in_tokens(tmp_path: Path) -> None:
    assert quiet(max_epochs=1).fit(Uncounted(), TEXTS).tokens == 0
    saver = dt.ModelCheckpoint(tmp_path, every_n_train_steps="20 tokens")
    for given in (
        {"max_steps": "20 tokens"},
        {"val_check_interval": "20 tokens", "max_epochs": 1},
        {"callbacks": saver, "max_epochs": 1},
    ):
        with pytest.raises(dt.ModuleError, match=r"module\.tokens.*20 tokens") as found:
            quiet(**given).fit(Uncounted(), TEXTS, TEXTS)
        assert "count_tokens" in found.value.hint


@pytest.mark.parametrize("counted", [-1, 1.5, True, "6", torch.ones(2), torch.tensor(0.5)])
def test_a_count_that_is_none_is_an_error_with_what_was_returned(counted: Any) -> None:
    with pytest.raises(dt.ModuleError, match=r"module\.tokens"):
        quiet(max_epochs=1).fit(Counting(counted), TEXTS)


def test_a_tensor_of_one_whole_number_is_a_count() -> None:
    assert quiet(max_epochs=1).fit(Counting(torch.tensor(3)), TEXTS).tokens == 15
