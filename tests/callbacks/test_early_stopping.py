from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch

import drivetrain as dt
from tests.callbacks.scripted import Scripted
from tests.loops.models import Regression, loader, quiet

Reason = dt.EarlyStoppingReason


def fit(stops: dt.EarlyStopping, module: dt.Module, **kwargs: Any) -> dt.FitResult:
    path = kwargs.pop("ckpt_path", None)
    return quiet(**{"max_epochs": 20, "callbacks": [stops], **kwargs}).fit(
        module, loader(), loader(5), ckpt_path=path
    )


def by_hand(values: list[float], mode: str, min_delta: float, patience: int) -> tuple[int, float, int]:
    """Return epochs run, best score and wait count, computed in another way."""
    sign = 1 if mode == "max" else -1
    best, best_at = -math.inf, -1
    for epoch, value in enumerate(values):
        if sign * value > best + min_delta:
            best, best_at = sign * value, epoch
        elif epoch - best_at >= max(patience, 1):
            break
    return epoch + 1, sign * best, epoch - best_at


CURVE = [5.0, 4.0, 4.5, 3.95, 3.9, 3.5, 3.6, 3.4, 3.45, 3.44, 3.43, 3.42, 1.0, *[2.0] * 7]


@pytest.mark.parametrize("mode", ["min", "max"])
@pytest.mark.parametrize("min_delta", [0.0, 0.1])
@pytest.mark.parametrize("patience", [0, 1, 3, 30])
def test_it_stops_where_a_count_by_hand_says(mode: str, min_delta: float, patience: int) -> None:
    values = CURVE if mode == "min" else [-value for value in CURVE]
    stops = dt.EarlyStopping("val", min_delta, patience, mode=mode)
    result = fit(stops, Scripted(val=values), limit_train_batches=1)
    epochs, best, waited = by_hand(values, mode, min_delta, patience)
    assert (result.epochs, float(stops.best_score), stops.wait_count) == (epochs, best, waited)
    if epochs < len(values):
        assert stops.stopping_reason is Reason.PATIENCE_EXHAUSTED
        assert (stops.stopped_epoch, result.stopped_early) == (epochs - 1, True)
        assert "val has not improved" in stops.stopping_reason_message
    assert stops.monitor_op is (torch.lt if mode == "min" else torch.gt)


@pytest.mark.parametrize(
    ("given", "values", "epochs", "reason"),
    [
        ({}, [1.0, math.nan, 0.5], 2, Reason.NON_FINITE_METRIC),
        ({}, [1.0, -math.inf, 0.5], 2, Reason.NON_FINITE_METRIC),
        ({"check_finite": False, "patience": 9}, [1.0, math.nan, 0.5], 3, Reason.NOT_STOPPED),
        ({"stopping_threshold": 0.7}, [1.0, 0.7, 0.6, 0.5], 3, Reason.STOPPING_THRESHOLD),
        ({"divergence_threshold": 2.0}, [1.0, 2.0, 2.1, 0.5], 3, Reason.DIVERGENCE_THRESHOLD),
        ({"mode": "max", "stopping_threshold": 0.9}, [0.5, 0.95, 1.0], 2, Reason.STOPPING_THRESHOLD),
        ({"mode": "max", "divergence_threshold": 0.1}, [0.5, 0.05, 1.0], 2, Reason.DIVERGENCE_THRESHOLD),
    ],
)
def test_thresholds_and_what_is_not_finite(
    given: dict[str, Any], values: list[float], epochs: int, reason: Reason
) -> None:
    stops = dt.EarlyStopping("val", **given)
    assert fit(stops, Scripted(val=values), max_epochs=len(values)).epochs == epochs
    assert stops.stopping_reason is reason
    assert (stops.stopping_reason_message is None) is (reason is Reason.NOT_STOPPED)
    assert not math.isnan(stops.best_score)


def test_an_old_value_counts_nothing() -> None:
    """Validation in every third epoch: two epochs in three have no new value."""
    stops = dt.EarlyStopping("val", patience=2)
    result = fit(stops, Scripted(val=[5.0] * 20), check_val_every_n_epoch=3)
    assert (result.epochs, stops.wait_count) == (9, 2)


@pytest.mark.parametrize("at_epoch_end", [None, True, False])
def test_a_value_is_counted_once_wherever_it_is_looked_at(at_epoch_end: bool | None, monkeypatch) -> None:
    for interval in (1.0, 0.5):
        monkeypatch.setattr(dt.Trainer, "val_check_interval", interval)
        stops = dt.EarlyStopping("val", patience=3, check_on_train_epoch_end=at_epoch_end)
        assert fit(stops, Scripted(val=[1.0] * 20)).epochs == 4


def test_a_value_that_the_module_logs_when_its_epoch_ends_is_seen() -> None:
    class Late(Regression):
        def on_train_epoch_end(self):
            self.log("late", 1.0)

    assert fit(dt.EarlyStopping("late", patience=2), Late()).epochs == 3


def test_a_missing_name_is_an_error_unless_told_otherwise() -> None:
    with pytest.raises(dt.ModuleError, match=r"callback.monitor.*EarlyStopping watches 'vall'"):
        fit(dt.EarlyStopping("vall"), Scripted(val=[1.0] * 20))
    with pytest.raises(dt.ModuleError, match=r"callback.monitor"):
        fit(dt.EarlyStopping("vall", check_on_train_epoch_end=False), Scripted(val=[1.0] * 20))
    with pytest.raises(dt.ModuleError, match=r"callback.monitor") as caught:
        fit(dt.EarlyStopping("vall"), Scripted(val=[1.0] * 20), check_val_every_n_epoch=2)
    assert caught.value.values["epoch"] == 1
    stops = dt.EarlyStopping("vall", strict=False)
    assert fit(stops, Scripted(val=[1.0] * 20), max_epochs=3).epochs == 3
    assert math.isinf(stops.best_score)


def test_bounds_below_come_first_and_a_new_fit_begins_anew() -> None:
    stops = dt.EarlyStopping("val", patience=2)
    trainer = quiet(max_epochs=20, min_epochs=6, callbacks=[stops])
    for _ in range(2):
        assert trainer.fit(Scripted(val=[1.0] * 20), loader(), loader(5)).epochs == 6
        assert stops.stopping_reason is Reason.PATIENCE_EXHAUSTED
    trainer.validate(Scripted(val=[math.nan] * 20), loader(5))
    assert stops.stopping_reason is Reason.PATIENCE_EXHAUSTED


class SaveAt(dt.Checkpoint):
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def on_train_epoch_end(self, trainer, module):
        trainer.save_checkpoint(self.folder / f"{trainer.current_epoch}.ckpt")


def test_a_resumed_run_stops_where_the_uninterrupted_one_does(tmp_path: Path) -> None:
    def state(stops: dt.EarlyStopping) -> tuple[Any, ...]:
        return stops.wait_count, float(stops.best_score), stops.stopped_epoch, stops.stopping_reason_message

    whole = dt.EarlyStopping("val", 0.1, 2)
    result = fit(whole, Scripted(val=CURVE), callbacks=[SaveAt(tmp_path), whole], limit_train_batches=2)
    assert result.epochs == 4
    for epoch in range(4):
        stops = dt.EarlyStopping("val", 0.1, 2)
        again = fit(stops, Scripted(val=CURVE), ckpt_path=tmp_path / f"{epoch}.ckpt", limit_train_batches=2)
        assert (again.epochs, again.steps, again.steps_here) == (4, 8, 6 - 2 * epoch)
        assert state(stops)[:2] == state(whole)[:2]
        assert stops.stopping_reason is Reason.PATIENCE_EXHAUSTED


def test_a_stopped_run_goes_on_with_more_patience(tmp_path: Path) -> None:
    first = dt.EarlyStopping("val", 0.1, 2)
    fit(first, Scripted(val=CURVE), callbacks=[SaveAt(tmp_path), first], limit_train_batches=2)
    stops = dt.EarlyStopping("val", 0.1, 4)
    path = tmp_path / "3.ckpt"
    assert fit(stops, Scripted(val=CURVE), ckpt_path=path, limit_train_batches=2).epochs == 10
    assert by_hand(CURVE, "min", 0.1, 4)[0] == 10


def test_it_speaks_on_request(capsys) -> None:
    fit(dt.EarlyStopping("val", patience=1, verbose=True), Scripted(val=[3.0, 2.5, 2.5]), max_epochs=3)
    assert capsys.readouterr().err.splitlines() == [
        "val improved to 3",
        "val improved by 0.5 to 2.5",
        "val has not improved on 2.5 for 1 values: stopping",
    ]
    fit(dt.EarlyStopping("val", patience=1), Scripted(val=[3.0, 3.0]), max_epochs=2)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    "given",
    [
        {"monitor": ""},
        {"monitor": None},
        {"patience": 1.5},
        {"patience": -1},
        {"min_delta": -0.1},
        {"min_delta": math.nan},
        {"mode": "auto"},
        {"strict": 1},
        {"stopping_threshold": "0.5"},
        {"divergence_threshold": math.inf},
        {"check_on_train_epoch_end": 0},
    ],
)
def test_other_arguments_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(dt.ModuleError, match=r"callback.bad-argument.*EarlyStopping"):
        dt.EarlyStopping(**{"monitor": "val", **given})


def test_two_of_them_watch_two_values() -> None:
    one, other = dt.EarlyStopping("val", patience=9), dt.EarlyStopping("acc", patience=1, mode="max")
    assert fit(one, Scripted(val=CURVE, acc=[0.5] * 20), callbacks=[one, other]).epochs == 2
    assert (one.stopping_reason, other.stopping_reason) == (Reason.NOT_STOPPED, Reason.PATIENCE_EXHAUSTED)


def test_a_run_that_had_stopped_says_in_which_epoch_once_it_is_resumed(tmp_path: Path) -> None:
    def stops() -> dt.EarlyStopping:
        return dt.EarlyStopping("val", patience=1, min_delta=100.0)

    first, second = stops(), stops()
    saves = dt.ModelCheckpoint(tmp_path)
    fit(first, Regression(), callbacks=[first, saves])
    fit(second, Regression(), ckpt_path=saves.best_model_path)
    assert first.stopped_epoch == second.stopped_epoch == 1
