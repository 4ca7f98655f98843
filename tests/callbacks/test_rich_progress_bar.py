from __future__ import annotations

import re

import pytest

import drivetrain as dt
from tests.callbacks.screen import Screen, watched
from tests.callbacks.test_progress_bar import Shown
from tests.loops.models import loader, quiet


@pytest.fixture(autouse=True)
def _wide(monkeypatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "200")


def plain(text: str) -> list[str]:
    """Return the lines without control characters."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text).replace("\r", "\n").split("\n")


def test_bars_show_batches_and_values_and_leave_one_line_an_epoch() -> None:
    theme = dt.RichProgressBarTheme(metrics_text_delimiter=" + ", metrics_format=".2f")
    bar = dt.RichProgressBar(leave=True, theme=theme)
    trainer = quiet(max_epochs=2, callbacks=[bar], num_sanity_val_steps=1, enable_progress_bar=True)

    class Two(Shown):
        def training_step(self, batch, batch_idx):
            self.log("two", 2.0, prog_bar=True)
            return super().training_step(batch, batch_idx)

    lines = plain(watched(lambda: trainer.fit(Two(), loader(), loader(8))))
    assert any(line.startswith("Sanity Checking DataLoader 0") for line in lines)
    assert any("10/10" in line and "it/s" in line for line in lines)
    left = [line for line in lines if line.startswith("epoch ")]
    assert [line[:34] for line in left] == [
        "epoch 0  step 10  two 2.00 + loss ",
        "epoch 1  step 20  two 2.00 + loss ",
    ]
    assert (bar._progress, bar._rows) == (None, {})


def test_the_last_state_stays_where_epochs_do_not() -> None:
    trainer = quiet(max_epochs=2, callbacks=[dt.RichProgressBar()])
    lines = plain(watched(lambda: trainer.fit(Shown(), loader())))
    assert [line[:24] for line in lines if line.startswith("Epoch 1/1  ")] == ["Epoch 1/1  10/10  loss 0"]


def test_columns_can_be_replaced_and_the_console_is_the_users() -> None:
    class Own(dt.RichProgressBar):
        def configure_columns(self, trainer):
            return super().configure_columns(trainer)[:1]

    other = Screen()
    bar = Own(console_kwargs={"file": other, "stderr": False})
    assert watched(lambda: quiet(max_epochs=1, callbacks=[bar]).fit(Shown(), loader())) == ""
    assert "Epoch 0/0" in other.getvalue()
    assert "it/s" not in other.getvalue()


def test_on_a_terminal_it_is_the_trainers_own() -> None:
    found: list = []
    watched(lambda: found.extend(quiet(enable_progress_bar=True).callbacks))
    assert [type(one) for one in found] == [dt.RichProgressBar]
    own = dt.LineProgress()
    watched(lambda: found.extend(quiet(callbacks=[own], enable_progress_bar=True).callbacks))
    assert found[1:] == [own]


def test_a_theme_is_one() -> None:
    with pytest.raises(dt.ModuleError, match=r"callback.bad-argument\].*theme"):
        dt.RichProgressBar(theme="dark")
