"""Which failure comes first, as a table of reports."""

from __future__ import annotations

import pytest

import drivetrain as dt
from drivetrain.launchers.report import PeerLost, Report, is_consequence
from drivetrain.launchers.verdict import judge

DONE = Report(0, "done")
GONE = "[/x/gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:1. More words"


def failed(rank: int, message: str, time_s: float, **parts) -> Report:
    kind = "RuntimeError" if message == GONE else "ValueError"
    return Report(
        rank, "failed", kind=kind, message=message, time_s=time_s, is_consequence=message == GONE, **parts
    )


def test_nobody_failed():
    assert judge(DONE, None, {1: Report(1, "done")}) is None


def test_a_cause_comes_before_earlier_consequences():
    own = failed(0, GONE, 1.0)
    others = {1: failed(1, GONE, 2.0), 2: failed(2, "bad", 3.0, where="step 2", traceback="lines")}
    verdict = judge(own, RuntimeError(GONE), others)
    assert isinstance(verdict.error, dt.RankFailure)
    assert str(verdict.error).splitlines() == [
        "[rank.failed] rank 2 failed at step 2: ValueError: bad",
        "  rank  = 2",
        "  where = step 2",
        "docs: errors/rank.failed",
        "also failed, as a consequence: ranks 0, 1 (RuntimeError: Connection closed by peer [127.0.0.1]:1)",
        "",
        "traceback of rank 2:",
        "lines",
    ]


def test_of_two_causes_the_earlier_comes_first_and_the_other_is_named():
    verdict = judge(DONE, None, {1: failed(1, "late", 2.0), 2: failed(2, "early", 1.0)})
    assert verdict.error.rank == 2
    assert "also failed: rank 1 (ValueError: late)" in str(verdict.error)


def test_the_callers_own_cause_is_raised_unchanged():
    error = ValueError("mine")
    verdict = judge(failed(0, "mine", 1.0), error, {1: failed(1, GONE, 0.5)})
    assert verdict.error is error
    assert verdict.is_own


def test_the_same_error_on_every_rank_is_the_callers():
    error = ValueError("all")
    assert judge(failed(0, "all", 2.0), error, {1: failed(1, "all", 1.0)}).error is error


def test_an_own_consequence_alone_is_raised_unchanged():
    error = RuntimeError(GONE)
    assert judge(failed(0, GONE, 1.0), error, {}, running=[1]).error is error


def test_who_had_left_is_named():
    verdict = judge(failed(0, GONE, 1.0), RuntimeError(GONE), {1: Report(1, "done"), 2: Report(2, "done")})
    assert verdict.error.code == "rank.left"
    assert "ranks 1, 2 had ended while rank 0 still communicated" in str(verdict.error)


@pytest.mark.parametrize(
    ("others", "running", "code"),
    [({}, [1], "rank.left"), ({1: Report(1, "done")}, [], "rank.left"), ({}, [], None)],
)
def test_leaving_with_zero_counts_as_a_failure_unless_all_do(others, running, code):
    error = SystemExit(0)
    own = Report(0, "failed", kind="SystemExit", leaves_with_zero=True)
    verdict = judge(own, error, others, running=running)
    assert getattr(verdict.error, "code", None) == (code or 0)


def test_a_death_is_told_by_signal_or_code():
    killed = Report(1, "died", exit_code=-9)
    verdict = judge(failed(0, GONE, 1.0, where="step 4"), RuntimeError(GONE), {1: killed})
    assert str(verdict.error).startswith("[rank.died] rank 1 died: killed by SIGKILL")
    assert "was at step 4" in str(verdict.error)
    assert "killed by signal 99" in Report(1, "died", exit_code=-99).headline
    assert "its exit code is unknown" in Report(1, "died").headline


def test_a_process_that_never_began_is_a_launch_error():
    never = Report(1, "died", exit_code=1, has_started=False)
    assert judge(DONE, None, {1: never}).error.code == "launch.start-failed"
    assert judge(DONE, None, {1: never}, imports_main=True).error.code == "launch.unguarded-main"


def test_what_torch_raises_for_a_lost_peer_is_a_consequence():
    chained = ValueError("my words")
    chained.__cause__ = RuntimeError(GONE)
    assert is_consequence(RuntimeError(GONE))
    assert is_consequence(chained)
    assert is_consequence(PeerLost())
    assert is_consequence(dt.LaunchError("launch.rendezvous-timeout", "x"))
    assert not is_consequence(ConnectionResetError("Connection reset by peer"))  # a user's own storage
    assert not is_consequence(RuntimeError("shapes differ"))
    assert not is_consequence(dt.LaunchError("launch.unpicklable", GONE))


def test_a_report_survives_hostile_exceptions():
    class HostileError(Exception):
        def __str__(self) -> str:
            raise TypeError

        def __reduce__(self):
            raise TypeError

    report = Report.of(HostileError(), 1)
    assert report.message == "<str() failed with TypeError>"
    assert report.exception() is None
    assert Report.of(ValueError("x\ny"), 1).headline == "rank 1 failed: ValueError: x"
    assert isinstance(Report.of(ValueError("x"), 1).exception(), ValueError)
