from __future__ import annotations

import functools
import inspect

import pytest

import drivetrain as dt
from drivetrain.events import Watch
from drivetrain.profilers.watching import Watching, watch_for
from tests.profilers.test_profiler import Notes


def test_a_call_is_the_same_call() -> None:
    def add(one: int, other: int = 2) -> int:
        return one + other

    notes = Notes()
    seen = Watching(notes).call(add, "add")
    assert (seen(1), seen(1, other=3)) == (3, 4)
    bound = Watching(notes).call(functools.partial(add, 1), "add")
    assert (bound.__module__, bound.__qualname__) == (add.__module__, add.__qualname__)
    assert list(inspect.signature(bound).parameters) == ["other"]
    assert inspect.signature(seen) == inspect.signature(add)
    with pytest.raises(TypeError):
        seen()
    assert notes.notes == ["+add", "-add"] * 3


def test_waiting_is_seen_and_using_is_not() -> None:
    def items():
        try:
            yield 1
            yield 2
            yield 3
        finally:
            notes.notes.append("closed")

    notes = Notes()
    waits = Watching(notes).each(items(), "next")
    for item in waits:
        notes.notes.append(str(item))
        if item == 2:
            break
    waits.close()
    assert notes.notes == ["+next", "-next", "1", "+next", "-next", "2", "closed"]
    assert list(Watching(notes).each(iter([1, 2]), "next")) == [1, 2]


def test_a_strategy_is_watched_for_a_profiler_only() -> None:
    class Acts:
        def training_step(self):
            return 1

        backward = batch_to_device = training_step

    plain, watched, notes = Acts(), Acts(), Notes()
    assert type(watch_for(dt.PassThroughProfiler(), plain)) is Watch
    assert vars(plain) == {}
    watch_for(notes, watched)
    assert watched.training_step() == 1
    assert notes.notes == ["+[Strategy]Acts.training_step", "-[Strategy]Acts.training_step"]
