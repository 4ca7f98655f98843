from __future__ import annotations

import pytest

import drivetrain as dt
from drivetrain.machine import installed
from tests.callbacks.screen import watched
from tests.callbacks.test_progress_bar import Shown
from tests.loops.models import loader, quiet


class Own(dt.TQDMProgressBar):
    def init_train_tqdm(self):
        bar = super().init_train_tqdm()
        bar.colour = "green"
        self.colours = [*getattr(self, "colours", []), bar.colour]
        return bar

    def get_metrics(self, trainer, module):
        return {**super().get_metrics(trainer, module), "mine": 7}


class Prints(Shown):
    def on_train_epoch_end(self):
        self.print("printed", sep="", flush=True)


def test_bars_show_batches_and_values_and_what_is_printed_goes_above(capsys) -> None:
    bar = Own(leave=True)
    trainer = quiet(max_epochs=2, callbacks=[bar], num_sanity_val_steps=1)
    text = watched(lambda: trainer.fit(Prints(), loader(), loader(8)))
    assert "Epoch 1/1" in text
    assert "10/10 [" in text
    assert "mine=7" in text
    assert "loss=0." in text
    assert "Sanity Checking DataLoader 0" in text
    assert "Validation DataLoader 0" in text
    assert capsys.readouterr().out == "printed\nprinted\n"
    assert bar.colours == ["green"] * 2
    assert bar.train_progress_bar is bar.val_progress_bar is None
    assert "Testing DataLoader 0" in watched(lambda: trainer.test(Prints(), loader(8)))
    assert "Predicting DataLoader 0" in watched(lambda: trainer.predict(Prints(), loader(8)))


def test_nothing_is_drawn_where_nobody_watches(capsys) -> None:
    bar = dt.TQDMProgressBar()
    quiet(max_epochs=1, callbacks=[bar]).fit(Shown(), loader())
    assert len(capsys.readouterr().err.splitlines()) == 1
    bar.print("plain", "print", sep="-")
    assert capsys.readouterr().out == "plain-print\n"


def test_arguments_and_the_package_are_checked(monkeypatch) -> None:
    assert dt.TQDMProgressBar(5, 2).process_position == 2
    with pytest.raises(dt.ModuleError, match="process_position"):
        dt.TQDMProgressBar(process_position=-1)
    monkeypatch.setattr(installed, "has_module", lambda name: name != "tqdm")
    with pytest.raises(dt.BuildError, match=r"build.package-missing\].*tqdm") as caught:
        dt.TQDMProgressBar()
    assert caught.value.hint == 'pip install "drivetrain[tqdm]"'
