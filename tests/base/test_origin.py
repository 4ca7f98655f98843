"""A value travels with where it came from."""

from __future__ import annotations

import copy
import pickle

import pytest

from drivetrain.base.origin import AUTO, OFF, ONE, UNSET, Origin, Sourced, is_said


def test_the_more_explicit_origin_is_the_smaller_one() -> None:
    order = [
        Origin.ARGUMENT,
        Origin.OBJECT,
        Origin.LEGACY,
        Origin.VARIABLE,
        Origin.MACHINE,
        Origin.DEFAULT,
    ]
    assert sorted(Origin) == order
    assert min(Origin.DEFAULT, Origin.ARGUMENT) is Origin.ARGUMENT


def test_a_person_said_everything_down_to_a_variable_and_nothing_below() -> None:
    assert [origin for origin in Origin if origin.is_said] == list(Origin)[:4]


def test_every_origin_has_a_word_of_its_own() -> None:
    words = [origin.word for origin in Origin]
    assert len(set(words)) == len(Origin)
    assert Origin.VARIABLE.word == "environment variable"


def test_a_sourced_value_tells_value_origin_and_reason() -> None:
    assert str(Sourced("ddp", Origin.ARGUMENT, "train.py:12")) == "'ddp' from argument: train.py:12"
    assert str(Sourced(2, Origin.DEFAULT)) == "2 from default"


def test_sourced_values_compare_by_all_that_they_tell() -> None:
    assert Sourced(2, Origin.DEFAULT) == Sourced(2, Origin.DEFAULT)
    assert Sourced(2, Origin.DEFAULT) != Sourced(2, Origin.MACHINE)
    with pytest.raises(AttributeError):
        Sourced(2, Origin.DEFAULT).value = 3


@pytest.mark.parametrize(("default", "value"), [(AUTO, "auto"), (ONE, 1), (OFF, False)])
def test_a_default_in_a_signature_equals_its_value_but_was_not_said(default: object, value: object) -> None:
    assert default == value
    assert repr(default) == repr(value)
    assert not is_said(default)
    assert is_said(value)


def test_none_and_unset_were_not_said_and_zero_was() -> None:
    assert not is_said(None)
    assert not is_said(UNSET)
    assert is_said(0)
    assert is_said("")


def test_unset_is_one_thing_across_copies_and_processes() -> None:
    assert pickle.loads(pickle.dumps(UNSET)) is UNSET  # noqa: S301 - our own bytes
    assert copy.deepcopy({"gpus": UNSET})["gpus"] is UNSET
    assert repr(UNSET) == "UNSET"
