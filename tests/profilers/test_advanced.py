from __future__ import annotations

import pickle
import pstats

import pytest

import drivetrain as dt
from tests.loops.models import Regression, loader, quiet


def work() -> int:
    return sum(range(10))


def other() -> int:
    return work()


def calls(stats: pstats.Stats) -> dict[str, int]:
    return {name: numbers[0] for (_, _, name), numbers in stats.stats.items()}


def test_an_action_has_the_functions_of_those_within_it_and_they_are_its_own() -> None:
    advanced = dt.AdvancedProfiler(line_count_restriction=5)
    for _ in range(2):
        with advanced.profile("outer"):
            work()
            with advanced.profile("inner"):
                other()
                assert "Profile stats for: inner" in advanced.summary()
                other()
            work()
    with advanced.profile("inner"):
        other()
    assert calls(advanced.stats("outer"))["work"] == 8
    assert (calls(advanced.stats("inner"))["work"], calls(advanced.stats("inner"))["other"]) == (5, 5)
    assert calls(advanced.stats("outer"))["other"] == 4
    assert advanced.actions == ["outer", "inner"]
    assert "restriction <5>" in advanced.summary()


def test_what_an_exception_left_open_ends_with_what_is_around_it() -> None:
    advanced = dt.AdvancedProfiler()
    advanced.start("outer")
    advanced.start("lost")
    advanced.stop("outer")
    assert advanced._running == []
    with pytest.raises(dt.ProfilerError, match=r"profiler.not-started"):
        advanced.stop("lost")
    with pytest.raises(dt.ProfilerError, match=r"profiler.not-started"):
        advanced.stats("never")


def test_a_run_is_reported_and_its_statistics_are_written(tmp_path, capsys) -> None:
    advanced = dt.AdvancedProfiler(tmp_path, line_count_restriction=0.1, dump_stats=True)
    trainer = quiet(max_steps=2, profiler=advanced)
    trainer.fit(Regression(), loader())
    assert "Profile stats for: run_training_batch" in capsys.readouterr().err
    stats = pstats.Stats(str(tmp_path / "fit-0-run_training_batch.prof"))
    assert calls(stats)["loss"] == 2
    assert (tmp_path / "fit-0-[Strategy]SingleRuntime.training_step.prof").exists()
    trainer.test(Regression(), loader(4))
    assert "run_training_batch" not in advanced.actions
    assert "run_test" in advanced.actions


@pytest.mark.parametrize("wrong", [-1, 1.5, True, "all"])
def test_a_restriction_is_a_number_of_lines_or_a_part(wrong) -> None:
    with pytest.raises(dt.ProfilerError, match=r"profiler.bad-argument\].*line_count_restriction"):
        dt.AdvancedProfiler(line_count_restriction=wrong)
    with pytest.raises(dt.ProfilerError, match="dump_stats"):
        dt.AdvancedProfiler(dump_stats=1)


def test_it_travels_empty() -> None:
    advanced = dt.AdvancedProfiler()
    with advanced.profile("here"):
        there = pickle.loads(pickle.dumps(advanced))  # noqa: S301 - our own bytes
    assert there.actions == []
    with there.profile("there"):
        work()
    assert there.actions == ["there"]
