"""Errors are data first; one function makes their text."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drivetrain.base import errors
from drivetrain.base.errors import (
    Conflict,
    DrivetrainDeprecationWarning,
    DrivetrainError,
    DrivetrainWarning,
    Notice,
    PlanError,
    RankFailure,
    render,
)
from drivetrain.base.origin import UNSET, Origin, Sourced

PLAIN = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, DrivetrainError) and kind not in (PlanError, RankFailure)
]
plain = st.one_of(st.integers(), st.text(max_size=20), st.none(), st.lists(st.integers(), max_size=3))
words = st.text(max_size=40)


def test_the_full_form_is_the_one_of_the_design() -> None:
    values = {"strategy": Sourced("fsdp", Origin.ARGUMENT, "train.py:12"), "devices": 2}
    assert render("plan.x", "no", values, "it is so", ("pass a=1", "leave out b")) == (
        "[plan.x] no\n"
        "  strategy = 'fsdp' from argument: train.py:12\n"
        "  devices  = 2\n"
        "  because it is so\n"
        "hint: pass a=1\n"
        "hint: leave out b\n"
        "docs: errors/plan.x"
    )


def test_what_is_not_there_takes_no_line() -> None:
    assert render("plan.x", "no", {}, "", ()) == "[plan.x] no\ndocs: errors/plan.x"


@pytest.mark.parametrize(
    ("fix", "hint"),
    [
        ({"devices": 2}, "hint: pass devices=2"),
        ({"devices": 2, "strategy": "ddp"}, "hint: pass devices=2, strategy='ddp'"),
        ({"gpus": UNSET}, "hint: leave out gpus"),
        ({"gpus": UNSET, "devices": 2}, "hint: pass devices=2 and leave out gpus"),
        ({"gpus": UNSET, "tpu_cores": UNSET}, "hint: leave out gpus and leave out tpu_cores"),
    ],
)
def test_a_hint_says_what_to_pass_and_what_to_leave_out(fix: errors.Fix, hint: str) -> None:
    assert str(Conflict("plan.x", "no", fixes=(fix,))).splitlines()[1] == hint


def test_a_notice_has_its_code_first_and_its_page_last() -> None:
    assert str(Notice("plan.legacy", "old; write new")) == (
        "[plan.legacy] old; write new\ndocs: errors/plan.legacy"
    )


@pytest.mark.parametrize("kind", PLAIN)
def test_an_error_is_rendered_from_its_data_and_crosses_a_process_with_them(
    kind: type[DrivetrainError],
) -> None:
    error = kind("room.what", "no", values={"a": 1}, because="rule", hint="do it")
    assert str(error) == render("room.what", "no", {"a": 1}, "rule", ("do it",))
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    assert isinstance(again, kind)
    assert str(again) == str(error)
    assert (again.code, again.message, again.values) == ("room.what", "no", {"a": 1})
    assert (again.because, again.hint) == ("rule", "do it")


@given(words, words, st.dictionaries(words, plain, max_size=3), words, words)
def test_any_data_survive_the_trip(
    code: str, message: str, values: dict[str, object], because: str, hint: str
) -> None:
    error = DrivetrainError(code, message, values=values, because=because, hint=hint)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)  # noqa: S301 - our own bytes


def test_a_plan_error_holds_every_conflict_and_crosses_a_process_with_them() -> None:
    first = Conflict("plan.a", "one", {"x": Sourced(1, Origin.ARGUMENT)}, "rule", ({"x": UNSET},))
    error = PlanError((first, Conflict("plan.b", "two")))
    assert str(error) == f"{first}\n\n[plan.b] two\ndocs: errors/plan.b"
    assert (error.code, error.message) == ("plan.a", "one")
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    assert isinstance(again, PlanError)
    assert again.conflicts == error.conflicts
    assert str(again) == str(error)


def test_whoever_catches_value_errors_catches_a_plan_error() -> None:
    assert issubclass(PlanError, ValueError)
    assert not issubclass(errors.LaunchError, ValueError)


def test_everything_raised_on_purpose_has_one_base() -> None:
    assert len(PLAIN) > 5
    assert all(issubclass(kind, DrivetrainError) for kind in [*PLAIN, PlanError, RankFailure])


def failure(**parts: object) -> RankFailure:
    values = {"rank": 3, "where": "stage fit, step 12"}
    return RankFailure("rank.failed", "rank 3 failed", values=values, **parts)


def test_a_rank_failure_knows_rank_and_place() -> None:
    assert (failure().rank, failure().where) == (3, "stage fit, step 12")
    nameless = RankFailure("rank.failed", "a rank failed")
    assert (nameless.rank, nameless.where) == (-1, "")


def test_a_rank_failure_prints_its_peers_and_then_the_remote_traceback() -> None:
    text = str(failure(remote_traceback="Traceback\n  boom\n\n", also="ranks 1, 2 followed"))
    assert text.endswith("\nranks 1, 2 followed\n\ntraceback of rank 3:\nTraceback\n  boom")
    assert str(failure()).endswith("docs: errors/rank.failed")


def test_a_rank_failure_crosses_a_process_with_its_traceback() -> None:
    error = failure(remote_traceback="boom", also="more", because="rule", hint="do it")
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    assert isinstance(again, RankFailure)
    assert str(again) == str(error)
    assert (again.rank, again.remote_traceback, again.also) == (3, "boom", "more")


def test_warnings_can_be_switched_off_by_class_and_old_spellings_are_seen_by_users() -> None:
    assert issubclass(DrivetrainWarning, UserWarning)
    assert issubclass(DrivetrainDeprecationWarning, DrivetrainWarning)
    assert issubclass(DrivetrainDeprecationWarning, FutureWarning)
    assert not issubclass(DrivetrainDeprecationWarning, DeprecationWarning)
