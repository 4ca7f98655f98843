"""The grammar of devices: how many, or which."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drivetrain.flags.devices import MOST, Devices, parse_devices
from drivetrain.flags.problem import Problem

indices = st.lists(st.integers(0, 99), min_size=1, max_size=6, unique=True)


class Index:
    """Stands for numpy's ints: no int, but usable as one."""

    def __init__(self, number: object) -> None:
        self.number = number

    def __index__(self) -> Any:
        if isinstance(self.number, Exception):
            raise self.number
        return self.number


def refused(value: object) -> Problem:
    with pytest.raises(Problem) as raised:
        parse_devices(value)
    return raised.value


@pytest.mark.parametrize("value", ["auto", " AUTO ", "Auto"])
def test_auto_leaves_the_decision_open(value: str) -> None:
    assert parse_devices(value) == Devices()
    assert parse_devices(value).is_auto


@pytest.mark.parametrize("value", [-1, "-1", " -1 ", Index(-1)])
def test_minus_one_alone_means_all(value: object) -> None:
    assert parse_devices(value) == Devices(is_all=True)
    assert not parse_devices(value).is_auto


@pytest.mark.parametrize("value", [2, "2", " 2 ", "02", Index(2)])
def test_a_number_is_a_count_also_as_text(value: object) -> None:
    assert parse_devices(value) == Devices(count=2)
    assert not parse_devices(value).is_auto


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("0,2", (0, 2)),
        ("1,", (1,)),
        ("0,", (0,)),
        (" 3 , 1 ", (3, 1)),
        ("2-5", (2, 3, 4, 5)),
        ("2 - 3", (2, 3)),
        ("2-2", (2,)),
        ("0,4-5", (0, 4, 5)),
        ([0, 2], (0, 2)),
        ((1,), (1,)),
        (range(3), (0, 1, 2)),
        ([Index(4)], (4,)),
    ],
)
def test_indices_are_lists_texts_with_commas_and_ranges(value: object, expected: tuple[int, ...]) -> None:
    assert parse_devices(value) == Devices(indices=expected)


def test_a_leading_zero_changes_neither_a_count_nor_an_index() -> None:
    assert parse_devices("08") == parse_devices(8)
    assert parse_devices("00,01") == parse_devices([0, 1])


@pytest.mark.parametrize("value", [0, "0", "00", Index(0)])
def test_no_device_is_no_run(value: object) -> None:
    assert refused(value).fixes == ({"devices": 1}, {"accelerator": "cpu", "devices": 1})


@pytest.mark.parametrize("value", [-2, MOST + 1, "999999", 10**30, Index(10**30)])
def test_a_count_beyond_all_machines_is_a_slip(value: object) -> None:
    assert "out of range" in refused(value).message


def test_the_largest_count_is_allowed() -> None:
    assert parse_devices(MOST).count == MOST
    assert parse_devices(str(MOST)).count == MOST


@pytest.mark.parametrize(
    ("value", "instead"),
    [
        (True, 1),
        (False, 1),
        (2.0, 2),
        (2.9, 2),
        (0.0, 1),
        (-3.0, 1),
        (math.nan, "auto"),
        (math.inf, "auto"),
        (1e30, "auto"),
    ],
)
def test_a_switch_and_a_float_are_no_count_and_the_hint_is_one(value: object, instead: object) -> None:
    problem = refused(value)
    assert problem.message.endswith(f"is a {type(value).__name__}")
    assert problem.fixes == ({"devices": instead},)


@pytest.mark.parametrize(
    "value", ["", "x", "1.0", "2x", "-2", "1-", "-1-2", "5-2", "1,,2", ",", "0,x", "1 2", "0,-1", "1" * 7]
)
def test_a_text_that_is_no_count_list_or_range_is_refused_at_its_piece(value: str) -> None:
    assert "cannot be read at" in refused(value).message


def test_a_range_longer_than_a_node_is_refused() -> None:
    assert parse_devices(f"1-{MOST}").indices == tuple(range(1, MOST + 1))
    assert "more than" in refused(f"0-{MOST}").message
    assert "cannot be read" in refused(f"0-{MOST + 1}").message


@pytest.mark.parametrize("value", [range(10**30), [0] * (MOST + 1)])
def test_a_list_longer_than_a_node_is_refused_before_it_is_read(value: Any) -> None:
    assert refused(value).message == f"devices lists more than {MOST} indices"


@pytest.mark.parametrize("value", [[], (), range(0)])
def test_an_empty_list_is_refused_not_taken_for_all(value: object) -> None:
    assert refused(value).message == "devices is empty"


@pytest.mark.parametrize("value", [[-1], [0, -1], [MOST + 1], [10**30]])
def test_an_index_starts_at_zero_and_ends_with_the_largest_node(value: object) -> None:
    assert "holds the index" in refused(value).message
    assert parse_devices([0, MOST]).indices == (0, MOST)


@pytest.mark.parametrize(
    ("value", "kind"), [([[0]], "list"), ([True], "bool"), ([0.0], "float"), ([None], "NoneType")]
)
def test_a_list_holds_only_ints(value: object, kind: str) -> None:
    problem = refused(value)
    assert problem.message.endswith(f"a {kind}")
    assert problem.fixes == ({"devices": "auto"},)


def test_a_list_of_digits_as_texts_is_refused_with_the_ints_as_hint() -> None:
    assert refused(["0", " 2 "]).fixes == ({"devices": [0, 2]},)
    assert refused([1, "2"]).fixes == ({"devices": [1, 2]},)
    assert refused(["0", "x"]).fixes == ({"devices": "auto"},)


def test_a_device_named_twice_is_refused_with_each_once_as_hint() -> None:
    assert refused([3, 1, 3]).fixes == ({"devices": [1, 3]},)
    assert refused("0,0-1").fixes == ({"devices": [0, 1]},)


@pytest.mark.parametrize("value", [None, {0}, {"cuda": 2}, object(), print, b"2", 2j])
def test_other_objects_are_refused_by_their_type(value: object) -> None:
    assert refused(value).message.endswith(f"is a {type(value).__name__}")


@pytest.mark.parametrize("error", [TypeError(), RuntimeError(), OverflowError()])
def test_an_object_whose_index_raises_is_refused_like_any_other(error: Exception) -> None:
    assert refused(Index(error)).message.endswith("is a Index")
    assert refused([Index(error)]).message.endswith("a Index")


@given(indices)
def test_a_list_and_its_text_are_the_same_question(value: list[int]) -> None:
    text = ",".join(map(str, value)) + ","
    assert parse_devices(text) == parse_devices(value) == Devices(indices=tuple(value))


@given(st.integers(1, MOST))
def test_a_count_and_its_text_are_the_same_question(value: int) -> None:
    assert parse_devices(str(value)) == parse_devices(value) == Devices(count=value)


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.from_type(type),
    lambda kept: (
        st.lists(kept, max_size=3)
        | st.tuples(kept)
        | st.dictionaries(st.text(max_size=2), kept, max_size=2)
        | st.builds(Index, kept)
    ),
    max_leaves=5,
)
devicelike = st.text("0123456789,-+. xauto\u0663\u00b2", max_size=12)


@given(anything | devicelike)
def test_whatever_is_passed_is_read_or_is_a_problem(value: object) -> None:
    try:
        found = parse_devices(value)
    except Problem:
        return
    said = [found.is_auto, found.is_all, found.count is not None, found.indices is not None]
    assert said.count(True) == 1
    assert found.count is None or 1 <= found.count <= MOST
    assert found.indices is None or len(set(found.indices)) == len(found.indices) >= 1


@given(anything | devicelike)
def test_every_hint_about_devices_can_be_read_itself(value: object) -> None:
    fixes: tuple[Mapping[str, object], ...] = ()
    try:
        parse_devices(value)
    except Problem as problem:
        fixes = problem.fixes
    for fix in fixes:
        assert parse_devices(fix["devices"])


@pytest.mark.parametrize("value", [2.0, True, "x", [], [0, 0], [-1], ["a"], 0, -2, None])
def test_a_problem_speaks_of_what_was_typed_and_its_fixes_are_of_todays_flag(value: object) -> None:
    with pytest.raises(Problem) as raised:
        parse_devices(value, "gpus")
    assert raised.value.message.startswith("gpus")
    assert not raised.value.because.startswith("devices")
    assert all("devices" in fix for fix in raised.value.fixes)
    assert refused(value).message == raised.value.message.replace("gpus", "devices")
