from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch

import drivetrain as dt
from drivetrain.callbacks import timer as module
from drivetrain.events import Dispatcher
from tests.loops.models import Regression, loader, quiet


class Clock:
    """A clock that the module under training moves."""

    def __init__(self, monkeypatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(module, "time", self)

    def monotonic(self) -> float:
        return self.now

    def slow(self, step_s: float, batch_s: float = 0.0) -> Regression:
        """Return a module of which a training step, and another loop's batch, takes so long."""
        clock = self

        class Slow(Regression):
            def training_step(self, batch, batch_idx):
                clock.now += step_s
                return super().training_step(batch, batch_idx)

            def validation_step(self, batch, batch_idx):
                clock.now += batch_s

            test_step = predict_step = validation_step

        return Slow()


@pytest.mark.parametrize(
    ("duration", "steps"),
    [
        (timedelta(seconds=30), 3),
        ("00:00:00:45", 5),
        ({"minutes": 1}, 6),
        ("1 min", 6),
        (dt.Quantity("seconds", 75), 8),
        ("00:00:02:00", 12),
        (None, 20),
    ],
)
def test_a_fit_stops_after_the_step_that_uses_its_time_up(
    monkeypatch, capsys, duration: Any, steps: int
) -> None:
    timer = dt.Timer(duration)
    result = quiet(max_epochs=2, callbacks=[timer]).fit(Clock(monkeypatch).slow(10.0), loader())
    assert (result.steps, result.stopped_early) == (steps, steps < 20)
    assert ("time limit" in capsys.readouterr().err) is (steps < 20)
    assert timer.time_elapsed() == 10.0 * steps
    assert timer.end_time() - timer.start_time() == 10.0 * steps
    assert timer.time_remaining() == (None if duration is None else 0.0)


def test_an_epoch_comes_to_its_end_on_request_and_bounds_below_come_first(monkeypatch, capsys) -> None:
    def steps(**kwargs: Any) -> int:
        timer = dt.Timer("00:00:00:35", kwargs.pop("interval", "epoch"), verbose=False)
        return (
            quiet(max_epochs=4, callbacks=[timer], **kwargs)
            .fit(Clock(monkeypatch).slow(10.0), loader())
            .steps
        )

    assert steps() == 10
    assert steps(min_steps=15) == steps(min_steps=15, interval="step") == 15
    assert steps(min_epochs=3) == 30
    assert capsys.readouterr().err == ""


def test_each_stage_has_its_clock_and_validation_counts_as_training(monkeypatch) -> None:
    clock, timer = Clock(monkeypatch), dt.Timer()
    trainer = quiet(max_epochs=2, callbacks=[timer])
    net = clock.slow(1.0, batch_s=3.0)
    assert timer.start_time() is timer.end_time() is timer.start_time("validate") is None
    assert timer.time_elapsed() == 0.0
    trainer.fit(net, loader(), loader(20, 10))
    assert (timer.time_elapsed(), timer.time_elapsed("validate")) == (32.0, 6.0)
    trainer.test(net, loader(30, 10))
    trainer.predict(net, loader(40, 10))
    assert (timer.time_elapsed("test"), timer.time_elapsed("predict")) == (9.0, 12.0)
    clock.now += 100
    assert timer.time_elapsed() == 32.0
    trainer.fit(clock.slow(2.0), loader())
    assert timer.time_elapsed() == 40.0


def test_a_running_clock_is_read_and_stops_with_a_failure(monkeypatch) -> None:
    clock, timer, seen = Clock(monkeypatch), dt.Timer("1 h"), []

    class Looks(dt.Callback):
        def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
            seen.append((timer.time_elapsed(), timer.time_remaining(), timer.end_time()))
            if batch_idx == 1:
                raise RuntimeError("boom")

    with pytest.raises(RuntimeError, match="boom"):
        quiet(max_epochs=1, callbacks=[timer, Looks()]).fit(clock.slow(10.0), loader())
    assert seen == [(10.0, 3590.0, None), (20.0, 3580.0, None)]
    clock.now += 100
    assert timer.time_elapsed() == 20.0


class SaveAt(dt.Checkpoint):
    def __init__(self, path: Path, step: int) -> None:
        self.path, self.step = path, step

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        if trainer.global_step == self.step:
            trainer.save_checkpoint(self.path)


@pytest.mark.parametrize("interval", ["step", "epoch"])
def test_a_resumed_run_stops_where_the_uninterrupted_one_does(
    tmp_path: Path, monkeypatch, interval: str
) -> None:
    def run(path: Path | None = None, save: int = -1) -> dt.FitResult:
        timer = dt.Timer(timedelta(seconds=150), interval, verbose=False)
        trainer = quiet(max_epochs=9, callbacks=[timer, SaveAt(tmp_path / "a.ckpt", save)])
        result = trainer.fit(Clock(monkeypatch).slow(10.0), loader(), ckpt_path=path)
        assert timer.time_elapsed() == 10.0 * result.steps
        return result

    whole = run(save=7)
    assert whole.steps == {"step": 15, "epoch": 20}[interval]
    assert torch.load(tmp_path / "a.ckpt", weights_only=True)["callbacks"]["Timer"] == {
        "time_elapsed": {"train": 70.0}
    }
    again = run(tmp_path / "a.ckpt", save=15)
    assert (again.steps, again.steps_here) == (whole.steps, whole.steps - 7)
    if interval == "step":
        assert run(tmp_path / "a.ckpt").steps_here == 0


def test_without_a_duration_no_step_calls_it() -> None:
    for timer, num_calls in ((dt.Timer(), 0), (dt.Timer("1 h", "epoch"), 0), (dt.Timer("1 h"), 1)):
        assert len(Dispatcher(None, dt.Module(), [timer]).calls("on_train_batch_end")) == num_calls


@pytest.mark.parametrize(
    "given",
    [
        {"duration": "12:00:00"},
        {"duration": "00:25:00:00"},
        {"duration": "00:00:61:00"},
        {"duration": "00:00:00:00"},
        {"duration": "5 steps"},
        {"duration": "soon"},
        {"duration": 30},
        {"duration": {"hour": 1}},
        {"duration": {"hours": 0}},
        {"duration": timedelta(seconds=-1)},
        {"interval": "batch"},
        {"verbose": None},
    ],
)
def test_other_arguments_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(dt.ModuleError, match=r"callback.bad-argument.*Timer"):
        dt.Timer(**given)


def test_an_unknown_stage_names_the_nearest() -> None:
    with pytest.raises(dt.ModuleError, match=r"did you mean 'validate'"):
        dt.Timer().time_elapsed("validation")
