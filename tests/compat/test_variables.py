from __future__ import annotations

import inspect

import pytest

from drivetrain.compat.trainer import Trainer
from drivetrain.compat.variables import with_variables


class Thing:
    @with_variables
    def __init__(self, *, size: int = 1, name: str | None = None, parts: object = (), **more: object) -> None:
        self.size, self.name, self.parts, self.more = size, name, parts, more


@pytest.mark.parametrize(
    ("text", "value"),
    [("3", 3), ("[0, 1]", [0, 1]), ("None", None), ("ddp_spawn", "ddp_spawn"), ("1:30", "1:30")],
)
def test_a_variable_is_read_as_python_else_as_text(monkeypatch, text, value):
    monkeypatch.setenv("PL_TRAINER_SIZE", text)
    assert Thing().size == value


def test_what_is_given_wins_and_other_variables_are_nobodys(monkeypatch):
    monkeypatch.setenv("PL_TRAINER_SIZE", "3")
    monkeypatch.setenv("PL_TRAINER_NAME", "")
    monkeypatch.setenv("PL_TRAINER_COLOUR", "red")
    monkeypatch.setenv("PL_TRAINER_MORE", "x")
    thing = Thing(size=5, extra=1)
    assert (thing.size, thing.name, thing.more) == (5, None, {"extra": 1})
    assert list(inspect.signature(Thing).parameters) == ["size", "name", "parts", "more"]


def test_a_trainer_takes_its_arguments_from_variables(monkeypatch, tmp_path):
    for name, text in {"MAX_EPOCHS": "7", "ACCELERATOR": "cpu", "DEVICES": "1", "LOGGER": "False"}.items():
        monkeypatch.setenv(f"PL_TRAINER_{name}", text)
    monkeypatch.setenv("PL_TRAINER_LIMIT_VAL_BATCHES", "0.5")
    trainer = Trainer(default_root_dir=tmp_path)
    assert (trainer.max_epochs, trainer.num_devices, trainer.logger) == (7, 1, None)
    assert trainer.limit_val_batches == 0.5
    assert Trainer(default_root_dir=tmp_path, max_epochs=2).max_epochs == 2
