from __future__ import annotations

import dataclasses
from copy import deepcopy
from datetime import timedelta
from fractions import Fraction

import pytest

from drivetrain.base.quantity import Quantity, QuantityProblem, parse


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [
        ("500 steps", "steps", 500),
        ("1 step", "steps", 1),
        ("  2_000steps ", "steps", 2000),
        ("2 epochs", "epochs", 2),
        ("0.5 epochs", "epochs", 0.5),
        ("1e6 samples", "samples", 1_000_000),
        ("2e7 tokens", "tokens", 20_000_000),
        ("2.5E3 Tokens", "tokens", 2500),
        ("90 s", "seconds", 90),
        ("30 min", "seconds", 1800),
        ("1.5 h", "seconds", 5400),
        ("2 d", "seconds", 172_800),
        ("0.1 s", "seconds", 0.1),
        ("+3 days", "seconds", 259_200),
    ],
)
def test_a_number_with_a_unit_is_read(text: str, unit: str, value: float) -> None:
    found = parse(text)
    assert (found.unit, found.value) == (unit, value)
    assert type(found.value) is type(value)
    assert parse(str(found)) == found


def test_what_is_a_quantity_already_stays_one() -> None:
    assert parse(Quantity("steps", 3)) == Quantity("steps", 3.0)
    assert parse(timedelta(minutes=1, milliseconds=500)) == Quantity("seconds", 60.5)
    assert hash(Quantity("epochs", 2.0)) == hash(Quantity("epochs", 2))
    assert deepcopy(Quantity("epochs", 0.5)) == Quantity("epochs", 0.5)


def test_it_is_frozen_and_exact() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Quantity("steps", 1).value = 2
    assert parse("0.1 epochs").exact == Fraction(1, 10)
    assert parse("1e22 tokens").exact == 10**22


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (500, "has no unit"),
        (None, "has no unit"),
        ("500", "a number without a unit"),
        ("steps", "cannot be read"),
        ("a few steps", "cannot be read"),
        ("1.2.3 steps", "no number"),
        ("0 steps", "more than 0|0.0 steps"),
        ("-1 epochs", "-1.0 epochs"),
        ("0.5 steps", "0.5 steps"),
        ("1.5 samples", "1.5 samples"),
        ("1e999 steps", "inf steps"),
        ("5 parsecs", "unknown unit 'parsecs'"),
        (timedelta(0), "0.0 seconds"),
    ],
)
def test_everything_else_is_a_problem_with_rule_and_hint(value: object, message: str) -> None:
    with pytest.raises(QuantityProblem, match=message) as caught:
        parse(value)
    assert caught.value.because
    assert caught.value.hint


@pytest.mark.parametrize(
    ("text", "near"),
    [("5 stps", "steps"), ("2 zz", None), ("3 mintues", "minutes"), ("1 sampels", "samples")],
)
def test_an_unknown_unit_names_the_nearest(text: str, near: str | None) -> None:
    with pytest.raises(QuantityProblem) as caught:
        parse(text)
    assert (f"did you mean '{near}'?" in caught.value.hint) is (near is not None)


def test_a_reader_says_which_units_it_can_use() -> None:
    assert parse("1 h", ("seconds",)).value == 3600
    with pytest.raises(QuantityProblem, match="is in steps") as caught:
        parse("1 step", ("seconds",))
    assert caught.value.hint == "write '30 min'"
    with pytest.raises(QuantityProblem, match="unknown unit 'stpes'") as caught:
        parse("1 stpes", ("seconds",))
    assert "steps" not in caught.value.hint


@pytest.mark.parametrize(("unit", "value"), [("years", 1), ("steps", True), ("steps", "3")])
def test_the_class_itself_refuses_too(unit: str, value: object) -> None:
    with pytest.raises(QuantityProblem):
        Quantity(unit, value)
