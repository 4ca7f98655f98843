from __future__ import annotations

from pathlib import Path

import pytest

import drivetrain as dt
from tests.loops.models import Regression, loader, quiet


class Failing(dt.Callback):
    def __init__(self) -> None:
        self.calls: list[str] = []

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        raise ValueError("the first")

    def on_exception(self, trainer, module, exception):
        self.calls.append(f"on_exception {exception}")
        raise KeyError("the second")

    def teardown(self, trainer, module, stage):
        self.calls.append(f"teardown {stage}")
        raise KeyError("the third")


class Telling(dt.Callback):
    def __init__(self, calls: list[str]) -> None:
        self.calls = calls

    def on_exception(self, trainer, module, exception):
        self.calls.append("told")

    def teardown(self, trainer, module, stage):
        self.calls.append("down")


def test_a_failure_stays_the_one_that_is_seen_and_everybody_is_told(capsys) -> None:
    failing = Failing()
    trainer = quiet(max_epochs=1, callbacks=[failing, Telling(failing.calls)])
    with pytest.raises(ValueError, match="the first"):
        trainer.fit(Regression(), loader())
    assert failing.calls == ["on_exception the first", "told", "teardown fit", "down"]
    shown = capsys.readouterr().err
    assert "Failing.on_exception failed after ValueError" in shown
    assert "KeyError: 'the second'" in shown
    assert "KeyError: 'the third'" in shown


def test_a_checkpoint_says_whether_it_was_cut_off_within_a_step(tmp_path: Path) -> None:
    class Interrupted(Regression):
        def training_step(self, batch, batch_idx):
            if self.global_step == 3 and not within[1:]:
                within.append(True)
                raise KeyboardInterrupt
            return super().training_step(batch, batch_idx)

    within: list[bool] = [True]
    trainer, module = quiet(max_epochs=1), Interrupted()
    with pytest.raises(KeyboardInterrupt):
        trainer.fit(module, loader())
    trainer.save_checkpoint(tmp_path / "a.ckpt")
    with pytest.warns(dt.DrivetrainWarning, match=r"checkpoint.inexact"):
        assert quiet(max_epochs=1).fit(module, loader(), ckpt_path=tmp_path / "a.ckpt").steps_here == 7
