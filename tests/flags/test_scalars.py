"""The grammars of counts, switches and names."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drivetrain.flags.problem import Problem
from drivetrain.flags.scalars import parse_count, parse_name, parse_switch

NAMES = ("cpu", "cuda", "bf16-mixed")
ALIASES = {"bf16": "bf16-mixed"}


class Index:
    def __init__(self, number: object) -> None:
        self.number = number

    def __index__(self) -> Any:
        if isinstance(self.number, Exception):
            raise self.number
        return self.number


@pytest.mark.parametrize(
    ("value", "count"), [(1, 1), (9, 9), ("3", 3), (" 3 ", 3), ("007", 7), (Index(2), 2)]
)
def test_a_count_is_an_int_from_one_to_the_most_also_as_digits(value: object, count: int) -> None:
    assert parse_count("num_nodes", value, 9) == count


@pytest.mark.parametrize("value", [0, -1, 10, "0", "10", Index(0), 10**30])
def test_a_count_outside_of_its_range_is_refused(value: object) -> None:
    with pytest.raises(Problem, match="out of range") as raised:
        parse_count("num_nodes", value, 9)
    assert raised.value.because == "num_nodes is from 1 to 9"


@pytest.mark.parametrize("value", [True, 2.0, "x", "", "1.0", "-1", "1" * 10, None, [1], Index(ValueError())])
def test_what_is_no_int_is_no_count(value: object) -> None:
    with pytest.raises(Problem) as raised:
        parse_count("num_nodes", value, 9)
    assert raised.value.message.endswith(f"is a {type(value).__name__}")
    assert raised.value.fixes == ({"num_nodes": 1},)


@pytest.mark.parametrize("text", ["true", "1", "yes", "on", "TRUE", " On "])
def test_a_switch_is_on_in_each_of_these_words(text: str) -> None:
    assert parse_switch("sync_batchnorm", text) is True
    assert parse_switch("sync_batchnorm", True) is True


@pytest.mark.parametrize("text", ["false", "0", "no", "off", "False", " OFF "])
def test_a_switch_is_off_in_each_of_these_words(text: str) -> None:
    assert parse_switch("sync_batchnorm", text) is False
    assert parse_switch("sync_batchnorm", False) is False


@pytest.mark.parametrize("value", [1, 0, None, "maybe", "", "2", "truee", [True]])
def test_what_is_neither_true_nor_false_is_no_switch_not_even_one(value: object) -> None:
    with pytest.raises(Problem, match="neither true nor false"):
        parse_switch("sync_batchnorm", value)


@pytest.mark.parametrize(("value", "name"), [("cpu", "cpu"), (" cuda ", "cuda"), ("bf16", "bf16-mixed")])
def test_a_name_is_one_of_the_names_or_an_alias(value: str, name: str) -> None:
    assert parse_name("precision", value, NAMES, ALIASES) == name


def test_an_unknown_name_is_refused_with_the_nearest_and_then_all() -> None:
    with pytest.raises(Problem, match="is not known") as raised:
        parse_name("accelerator", "cudaa", NAMES, ALIASES)
    assert raised.value.because == "accelerator is one of: cpu, cuda, bf16-mixed"
    assert raised.value.fixes == ({"accelerator": "cuda"}, {"accelerator": "auto"})


def test_a_name_in_other_case_is_not_known_and_the_hint_is_its_spelling() -> None:
    with pytest.raises(Problem) as raised:
        parse_name("accelerator", "CPU", NAMES, ALIASES)
    assert raised.value.fixes[0] == {"accelerator": "cpu"}


def test_a_name_near_an_alias_is_hinted_as_what_the_alias_stands_for() -> None:
    with pytest.raises(Problem) as raised:
        parse_name("precision", "bf6", ("cpu",), ALIASES)
    assert raised.value.fixes[0] == {"precision": "bf16-mixed"}


def test_a_name_like_no_other_has_no_nearest() -> None:
    with pytest.raises(Problem) as raised:
        parse_name("accelerator", "????", NAMES, ALIASES)
    assert raised.value.fixes == ({"accelerator": "auto"},)


@pytest.mark.parametrize("value", [None, 1, ["cpu"], b"cpu"])
def test_what_is_no_text_is_no_name(value: object) -> None:
    with pytest.raises(Problem) as raised:
        parse_name("accelerator", value, NAMES, ALIASES)
    assert raised.value.message.endswith(f"is a {type(value).__name__}")


anything = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.lists(st.integers())


@pytest.mark.parametrize(
    ("parse", "results"),
    [
        (lambda value: parse_count("f", value, 5), range(1, 6)),
        (lambda value: parse_switch("f", value), (True, False)),
        (lambda value: parse_name("f", value, NAMES, ALIASES), NAMES),
    ],
)
@given(anything)
def test_any_value_is_read_or_is_a_problem(
    parse: Callable[[object], object], results: Collection[object], value: object
) -> None:
    try:
        found = parse(value)
    except Problem:
        return
    assert found in results
