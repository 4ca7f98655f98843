from __future__ import annotations

import pickle
import time

import pytest

import drivetrain as dt
from tests.loops.models import Regression, loader, quiet


def rows(text: str) -> dict[str, list[str]]:
    """Return a report's cells by action."""
    found = [[cell.strip() for cell in line.split("|")] for line in text.splitlines() if "|" in line]
    return {cells[0]: cells[1:] for cells in found}


def test_times_are_those_of_the_actions_and_of_what_is_in_them() -> None:
    simple = dt.SimpleProfiler()
    with simple.profile("outer"):
        for _ in range(2):
            with simple.profile("inner"):
                time.sleep(0.01)
    found = {name: sum(times) for name, times in simple.recorded_durations.items()}
    assert found["outer"] >= found["inner"] >= 0.02
    table = rows(simple.summary())
    assert list(table) == ["Action", "Total", "outer", "inner"]
    assert table["Action"] == ["Mean duration (s)", "Num calls", "Total time (s)", "Percentage %"]
    assert (table["Total"][1], table["inner"][1]) == ("3", "2")
    assert float(table["inner"][0]) == pytest.approx(found["inner"] / 2, rel=1e-3)
    assert list(rows(dt.SimpleProfiler(extended=False).summary())) == []


def test_an_action_within_itself_ends_with_its_own_stop() -> None:
    simple = dt.SimpleProfiler(extended=False)
    with simple.profile("again"), simple.profile("again"):
        pass
    assert len(simple.recorded_durations["again"]) == 2
    assert rows(simple.summary())["Action"] == ["Mean duration (s)", "Total time (s)"]


def test_an_action_is_started_before_it_is_stopped() -> None:
    simple = dt.SimpleProfiler()
    simple.start("run_training_batch")
    with pytest.raises(dt.ProfilerError, match=r"profiler.not-started\].*run_train_batch") as caught:
        simple.stop("run_train_batch")
    assert caught.value.hint == "did you mean 'run_training_batch'?"
    with pytest.raises(dt.ProfilerError, match="extended"):
        dt.SimpleProfiler(extended="yes")


def test_each_run_has_its_own_report(capsys) -> None:
    trainer = quiet(max_steps=3, profiler="simple")
    with trainer.profiler.profile("before"):
        pass
    trainer.fit(Regression(), loader())
    table = rows(capsys.readouterr().err)
    assert table["run_training_batch"][1] == "3"
    assert table["before"][1] == "1"
    trainer.test(Regression(), loader(8))
    text = capsys.readouterr().err
    assert text.startswith("TEST profiler report")
    assert rows(text)["[Strategy]SingleRuntime.test_step"][1] == "2"
    assert "run_training_batch" not in text
    assert len(trainer.profiler.recorded_durations["run_test"]) == 1


def test_it_travels_empty() -> None:
    simple = dt.SimpleProfiler(filename="times")
    with simple.profile("here"):
        there = pickle.loads(pickle.dumps(simple))  # noqa: S301 - our own bytes
    assert (there.recorded_durations, there.current_actions, there.filename) == ({}, {}, "times")
