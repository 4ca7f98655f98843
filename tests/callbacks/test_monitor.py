from __future__ import annotations

import torch

from drivetrain.callbacks.monitor import Monitor, Reading, validates_within_epochs


class Standing:
    """A run, as a monitor asks it."""

    def __init__(self) -> None:
        self.callback_metrics: dict[str, torch.Tensor] = {}
        self.global_step = self.current_epoch = 0
        self.check_val_every_n_epoch: int | None = 1
        self.val_check_interval: float = 1.0
        self.collectives = self

    def broadcast_object(self, value):
        return value

    def at(self, step: int, **logged: float) -> Standing:
        self.global_step = step
        self.callback_metrics |= {name: torch.tensor(value) for name, value in logged.items()}
        return self


def test_a_value_is_current_at_the_step_at_which_it_was_first_seen() -> None:
    run, monitor = Standing(), Monitor("val", "Mine")
    monitor.begin(run)
    assert monitor.look(run) == Reading(None, is_current=False)
    assert monitor.look(run.at(1, val=3.0)) == Reading(3.0, is_current=True)
    assert monitor.look(run) == Reading(3.0, is_current=True)
    assert monitor.look(run.at(2)) == Reading(3.0, is_current=False)
    monitor.mark(run.at(5, val=3.0))
    assert monitor.look(run.at(6)) == Reading(3.0, is_current=False)
    assert monitor.look(run.at(7, val=3.0)) == Reading(3.0, is_current=True)


def test_a_value_that_a_checkpoint_brought_is_of_its_step() -> None:
    run, monitor = Standing().at(4, val=3.0), Monitor("val", "Mine")
    monitor.begin(run)
    assert not monitor.look(run).is_current
    monitor.begin(run, 4)
    assert monitor.look(run).is_current


def test_a_missing_name_is_an_error_once_validation_could_have_logged_it() -> None:
    run, monitor = Standing().at(4, val_loss=1.0, loss=2.0), Monitor("val_los", "EarlyStopping")
    run.check_val_every_n_epoch = 3
    had = []
    for run.current_epoch in range(3):
        had.append(monitor.has_had_its_chance(run))
    assert had == [False, False, True]
    run.check_val_every_n_epoch = None
    assert not monitor.has_had_its_chance(run)
    monitor.note_validation()
    assert monitor.has_had_its_chance(run)
    error = monitor.missing(run)
    assert error.code == "callback.monitor"
    assert error.values["logged"] == ["loss", "val_loss"]
    assert error.hint == "did you mean monitor='val_loss'?"


def test_validations_lie_within_epochs_unless_each_ends_one() -> None:
    run = Standing()
    found = []
    for run.val_check_interval, run.check_val_every_n_epoch in (
        (1.0, 1),
        (1.0, 5),
        (0.5, 1),
        (1, 1),
        (7, None),
    ):
        found.append(validates_within_epochs(run))
    assert found == [False, False, True, True, True]
