"""Which steps are logged and validated after, where that is said in a unit."""

from __future__ import annotations

import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from torch.utils.data import IterableDataset

import drivetrain as dt
from drivetrain.base.quantity import parse
from drivetrain.loops.interval import LogInterval, Passing
from drivetrain.loops.progress import Progress
from tests.callbacks.rows import Rows
from tests.loops.models import Regression, data, loader, quiet


class Counting(Regression):
    """Two tokens a sample."""

    def count_tokens(self, batch: Any) -> int:
        return 2 * len(batch[0])


def logged(module: dt.Module | None = None, **given: Any) -> list[int | None]:
    """Return the steps that two epochs of five batches of four logged."""
    rows = Rows()
    quiet(**{"max_epochs": 2, "logger": rows, **given}).fit(module or Counting(), loader(20))
    return [step for step, values in rows.rows if "loss_step" in values]


@pytest.mark.parametrize("ranks", [{}, {"devices": 2, "strategy": "ddp"}])
@pytest.mark.parametrize(
    ("every", "steps", "steps_of_two"),
    [
        ("2 steps", [2, 4, 5, 6, 8, 10], [2, 3, 4, 6]),
        ("8 samples", [2, 4, 5, 6, 8, 10], [1, 2, 3, 4, 5, 6]),
        ("10 samples", [3, 5, 8, 10], [2, 3, 5, 6]),
        ("1 samples", [*range(1, 11)], [*range(1, 7)]),
        ("1e9 samples", [5, 10], [3, 6]),
        ("24 tokens", [3, 5, 6, 9, 10], [2, 3, 4, 5, 6]),
        ("0.4 epochs", [2, 4, 5, 6, 8, 10], [1, 2, 3, 4, 5, 6]),
        ("2 epochs", [5, 10], [3, 6]),
    ],
)
def test_the_first_step_at_which_a_counter_has_passed_a_multiple_is_logged(
    every: str, steps: list[int], steps_of_two: list[int], ranks: dict[str, Any]
) -> None:
    """An epoch's last step always is. Two ranks take 8, 8 and 4 samples a step."""
    assert logged(log_every_n_steps=every, **ranks) == (steps_of_two if ranks else steps)


def test_a_multiple_within_an_accumulated_window_is_seen_at_its_step() -> None:
    assert logged(log_every_n_steps="12 samples", accumulate_grad_batches=2) == [2, 3, 4, 5, 6]
    assert logged(log_every_n_steps="24 samples", accumulate_grad_batches=2) == [3, 4, 6]


class Slow(Regression):
    """Takes 30 ms a step."""

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        time.sleep(0.03)
        return super().training_step(batch, batch_idx)


@pytest.mark.parametrize("ranks", [{}, {"devices": 2, "strategy": "ddp"}])
def test_a_time_is_rank_0_s(ranks: dict[str, Any]) -> None:
    rows = Rows()
    begin = time.monotonic()
    quiet(logger=rows, log_every_n_steps="0.3 s", max_epochs=1, max_steps=40, **ranks).fit(
        Slow(), loader(400)
    )
    took = time.monotonic() - begin
    steps = [step or 0 for step, values in rows.rows if "loss_step" in values]
    assert steps[-1] == 40
    # Never more often than the time says, however busy the machine; steps of 30 ms take 1.2 s at least.
    assert 2 <= len(steps) <= took / 0.3 + 1
    assert logged(log_every_n_steps=timedelta(hours=1), **ranks) == ([3, 6] if ranks else [5, 10])


def test_monitors_write_at_the_steps_that_are_logged() -> None:
    rows = Rows()
    monitors = [
        dt.LearningRateMonitor("step"),
        dt.DeviceStatsMonitor(),
        dt.ThroughputMonitor(batch_size_fn=_size),
    ]
    quiet(max_epochs=2, logger=rows, log_every_n_steps="12 samples", callbacks=monitors).fit(
        Regression(), loader(20)
    )
    device = "DeviceStatsMonitor.on_train_batch_"
    for start in ("lr-", f"{device}start", f"{device}end", "train/"):
        assert [*rows.named(start)] == [3, 6, 9], start


def _size(batch: Any) -> int:
    return len(batch[0])


def test_a_run_that_goes_on_logs_the_same_steps(tmp_path: Path) -> None:
    """Saved in an open window that a multiple fell into; and once with another quantity."""
    given = {"log_every_n_steps": "12 samples", "accumulate_grad_batches": 2}
    whole = logged(**given)
    saver = dt.ModelCheckpoint(tmp_path, every_n_train_steps=1, filename="{step}", save_top_k=-1)
    assert logged(callbacks=[saver], **given) == whole
    for step in range(1, 6):
        rows = Rows()
        quiet(max_epochs=2, logger=rows, **given).fit(
            Counting(), loader(20), ckpt_path=tmp_path / f"step={step}.ckpt"
        )
        went_on = [number for number, values in rows.rows if "loss_step" in values]
        assert went_on == [number for number in whole if (number or 0) > step]
    rows = Rows()
    quiet(max_epochs=2, logger=rows, log_every_n_steps="64 tokens").fit(
        Counting(), loader(20), ckpt_path=tmp_path / "step=4.ckpt"
    )
    assert [number for number, values in rows.rows if "loss_step" in values] == [5, 6]


def test_another_interval_of_a_run_that_goes_on_counts_from_where_it_is() -> None:
    progress = Progress(samples=5000)
    fine, coarse = Passing("name", parse("100 samples")), Passing("name", parse("1000 samples"))
    fine.begin(progress, None)
    assert not fine.is_due(progress, None)
    progress.samples = 5100
    assert fine.is_due(progress, None)
    coarse.begin(progress, None)
    progress.samples = 5900
    assert not coarse.is_due(progress, None)
    progress.samples = 7000
    assert coarse.is_due(progress, None)
    assert not coarse.is_due(progress, None)


class Endless(IterableDataset):
    def __iter__(self) -> Any:
        return iter(data(20))


def test_a_part_of_an_epoch_needs_its_length() -> None:
    with pytest.raises(dt.DataError, match=r"data.val-interval\] log_every_n_steps=0.5 of an epoch"):
        quiet(max_epochs=1, log_every_n_steps="0.5 epochs").fit(Regression(), Endless())


def test_tokens_need_a_module_that_counts_them() -> None:
    with pytest.raises(dt.ModuleError, match=r"module.tokens\] log_every_n_steps is '100 tokens'"):
        quiet(max_epochs=1, log_every_n_steps="100 tokens").fit(Regression(), loader())


@pytest.mark.parametrize("wrong", [0, -1, 2.5, "0 samples", "five", True, None])
def test_what_is_no_interval_is_refused(wrong: Any) -> None:
    with pytest.raises(dt.TrainerError, match=r"trainer.bad-argument\] .*log_every_n_steps"):
        quiet(log_every_n_steps=wrong)


def test_only_the_rank_that_keeps_the_time_says_that_it_is_over() -> None:
    wanted = parse("1e-9 s")
    assert LogInterval(wanted, None, is_teller=True).is_over()
    assert not LogInterval(wanted, None, is_teller=False).is_over()
    assert not LogInterval(parse("1 samples"), None, is_teller=True).is_over()
