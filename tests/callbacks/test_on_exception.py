from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import drivetrain as dt
from drivetrain.callbacks.on_exception import rescue
from tests.callbacks.scripted import names
from tests.loops.models import Regression, differing, loader, quiet


class Fails(Regression):
    """Fails at a step, before anything of it is done."""

    error: type[BaseException] = ValueError

    def __init__(self, step: int) -> None:
        super().__init__()
        self.step = step

    def training_step(self, batch, batch_idx):
        if self.global_step == self.step:
            raise self.error("bad label")
        return super().training_step(batch, batch_idx)


def fit(module: dt.Module, callback: dt.Callback, path: Path | None = None) -> dt.Trainer:
    trainer = quiet(max_epochs=2, callbacks=[callback])
    trainer.fit(module, loader(shuffle=True), ckpt_path=path)
    return trainer


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_the_state_of_the_last_step_is_saved_and_goes_on_exactly(
    tmp_path: Path, capsys, error: type[BaseException]
) -> None:
    callback = dt.OnExceptionCheckpoint(tmp_path)
    module = Fails(13)
    module.error = error
    with pytest.raises(error, match="bad label"):
        fit(module, callback)
    assert callback.ckpt_path == str(tmp_path / "on_exception.ckpt")
    assert f"{error.__name__} at step 13: saved {callback.ckpt_path}" in capsys.readouterr().err
    resumed, whole = dt.OnExceptionCheckpoint(tmp_path / "none"), dt.OnExceptionCheckpoint(tmp_path / "none")
    for name, callback_here, path in (("a", resumed, Path(callback.ckpt_path)), ("b", whole, None)):
        torch.manual_seed(1)
        says = pytest.warns(dt.DrivetrainWarning, match=r"checkpoint.inexact") if path else nullcontext()
        with says:  # the step that failed may have drawn random numbers
            fit(Regression(), callback_here, path).save_checkpoint(tmp_path / f"{name}.ckpt")
    one, other = (torch.load(tmp_path / f"{name}.ckpt", weights_only=True) for name in "ab")
    for found in (one, other):
        del found["rng"]  # both began from a seed of their own, and nothing was drawn
    assert not differing(one, other)
    assert names(tmp_path) == ["a.ckpt", "b.ckpt", "on_exception.ckpt"]


def test_outside_of_a_fit_there_is_nothing_to_save(tmp_path: Path) -> None:
    class FailsElsewhere(Regression):
        def test_step(self, batch, batch_idx):
            raise ValueError("in the test")

        def on_fit_start(self):
            raise ValueError("before the first step")

        def teardown(self, stage):
            raise ValueError("after the last")

    trainer = quiet(max_epochs=1, callbacks=[dt.OnExceptionCheckpoint(tmp_path / "new")])
    with pytest.raises(ValueError, match="in the test"):
        trainer.test(FailsElsewhere(), loader())
    with pytest.raises(ValueError, match="before the first step"):
        trainer.fit(FailsElsewhere(), loader())
    module = FailsElsewhere()
    module.on_fit_start = lambda: None
    with pytest.raises(ValueError, match="after the last"):
        trainer.fit(module, loader())
    assert names(tmp_path) == []


def test_a_save_that_fails_does_not_hide_the_exception(tmp_path: Path, capsys) -> None:
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(ValueError, match="bad label"):
        fit(Fails(3), dt.OnExceptionCheckpoint(tmp_path / "file", "crash"))
    assert "could not save" in capsys.readouterr().err


def test_where_each_rank_holds_a_part_nothing_is_written_and_that_is_said(capsys) -> None:
    run = SimpleNamespace(
        is_global_zero=True, world_size=2, strategy=SimpleNamespace(is_whole_everywhere=False)
    )
    assert not rescue(run, "never.ckpt", ValueError())
    assert "ValueError: nothing is saved, since each rank holds a part" in capsys.readouterr().err


@pytest.mark.parametrize("given", [{"dirpath": ".", "filename": ""}, {"dirpath": ".", "filename": None}])
def test_other_arguments_are_refused(given: dict) -> None:
    with pytest.raises(dt.ModuleError, match=r"callback.bad-argument"):
        dt.OnExceptionCheckpoint(**given)
