from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from fractions import Fraction

import pytest

import drivetrain as dt
from drivetrain.base.quantity import Quantity, parse
from drivetrain.callbacks import clock
from drivetrain.callbacks.triggers import Triggers, read_interval


@dataclass
class At:
    """Where a run stands, as triggers ask for it."""

    num_training_batches: int | None = 10
    global_step: int = 0
    samples_seen: int = 0
    tokens_seen: int = 0
    current_epoch: int = 0
    world_size: int = 1

    def due(self, triggers: Triggers, num_batches: int, *, samples: int = 4, steps: int = 1) -> list[int]:
        """Take batches; return after which, counted from 1, something was due."""
        found, total = [], self.num_training_batches or 1000
        for number in range(1, num_batches + 1):
            self.current_epoch, batch_idx = divmod(number - 1, total)
            self.global_step += steps
            self.samples_seen += samples
            self.tokens_seen += 2 * samples
            if triggers.after_batch(self, batch_idx):
                found.append(number)
        return found


class Counting(dt.Module):
    def count_tokens(self, batch: object) -> int:
        raise NotImplementedError


def made(*texts: str) -> Triggers:
    return Triggers("ModelCheckpoint", {f"every {text}": parse(text) for text in texts})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("7 steps", [7, 14, 21, 28]),
        ("0.5 epochs", [5, 10, 15, 20, 25, 30]),
        ("0.3 epochs", [3, 6, 9, 12, 15, 18, 21, 24, 27, 30]),
        ("1.5 epochs", [15, 30]),
        ("20 tokens", [3, 5, 8, 10, 13, 15, 18, 20, 23, 25, 28, 30]),
        ("10 samples", [3, 5, 8, 10, 13, 15, 18, 20, 23, 25, 28, 30]),
    ],
)
def test_an_interval_is_due_when_its_multiple_is_passed(text: str, expected: list[int]) -> None:
    triggers, run = made(text), At()
    assert triggers.within_epochs
    triggers.begin(run, Counting())
    assert run.due(triggers, 30) == expected


@pytest.mark.parametrize("num_batches", [7, 9, 10, 13])
@pytest.mark.parametrize("part", ["0.1", "0.25", "0.7", "2.2"])
def test_parts_of_epochs_fall_where_exact_numbers_say(part: str, num_batches: int) -> None:
    triggers, run = made(f"{part} epochs"), At(num_training_batches=num_batches)
    expected = [
        number
        for number in range(1, 60)
        if any(
            Fraction(number - 1, num_batches) < times * Fraction(part) <= Fraction(number, num_batches)
            for times in range(1, 1000)
        )
    ]
    assert run.due(triggers, 59) == expected


def test_a_counter_that_jumps_over_a_multiple_is_due_once() -> None:
    triggers, run = made("5 steps"), At()
    triggers.begin(run, Counting())
    assert run.due(triggers, 6, steps=3) == [2, 4, 5]  # 6, 12 and 15


def test_batches_without_an_optimizer_step_are_not_due_again() -> None:
    triggers, run = made("2 steps"), At()
    triggers.begin(run, Counting())
    run.due(triggers, 1, steps=2)
    assert run.due(triggers, 3, steps=0) == []


def test_a_resumed_run_counts_on_from_where_it_stands() -> None:
    triggers, run = made("10 steps", "100 samples"), At(global_step=20, samples_seen=80)
    triggers.begin(run, Counting())
    assert run.due(triggers, 10) == [5, 10]


def test_whole_epochs_are_due_at_epochs_ends_only() -> None:
    triggers = made("3 epochs")
    assert not triggers.within_epochs
    assert [epoch for epoch in range(9) if triggers.after_epoch(At(current_epoch=epoch))] == [2, 5, 8]


def test_a_time_is_due_when_it_is_over(monkeypatch) -> None:
    now = [0.0]
    monkeypatch.setattr(clock, "time", type("T", (), {"monotonic": lambda: now[0]}))
    triggers, run, found = made("1 min", "10 steps"), At(), []
    triggers.begin(run, Counting())
    for number in range(1, 20):
        now[0] += 17.0
        run.global_step += 1
        if triggers.after_batch(run, 0):
            found.append(number)
    assert found == [4, 8, 10, 12, 16]  # 68 s, 136 s, step 10, 204 s, 272 s


def test_a_part_of_an_epoch_needs_a_length() -> None:
    with pytest.raises(dt.ModuleError, match=r"every 0.5 epochs='0.5 epochs'.*whole epochs|whole epochs"):
        made("0.5 epochs").after_batch(At(num_training_batches=None), 0)


def test_arguments_become_intervals() -> None:
    assert read_interval("X", "n", 5, "steps") == Quantity("steps", 5)
    assert read_interval("X", "n", "5 epochs", "steps") == Quantity("epochs", 5)
    assert read_interval("X", "n", timedelta(minutes=1), "seconds") == Quantity("seconds", 60)
    assert read_interval("X", "n", None, "steps") is read_interval("X", "n", 0, "steps") is None


@pytest.mark.parametrize(
    ("value", "unit"),
    [
        (-1, "steps"),
        (1.5, "steps"),
        (True, "epochs"),
        ("5", "steps"),
        ("5 stpes", "steps"),
        (30, "seconds"),
        ("5 steps", "seconds"),
        (timedelta(0), "seconds"),
    ],
)
def test_other_arguments_are_refused_with_the_rule(value: object, unit: str) -> None:
    with pytest.raises(dt.ModuleError, match=r"callback.bad-argument") as caught:
        read_interval("ModelCheckpoint", "every_n", value, unit)
    assert caught.value.message == f"ModelCheckpoint(every_n={value!r})"
