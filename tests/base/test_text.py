"""Text that is safe to print in an error."""

from __future__ import annotations

import ast
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drivetrain.base.text import Code, arguments, listed, literal, nearest, show

names = st.text("abcdefghij_", min_size=1, max_size=12)


class Raises:
    def __init__(self, error: type[Exception]) -> None:
        self.error = error

    def __repr__(self) -> str:
        raise self.error


class Bare:
    pass


@pytest.mark.parametrize("error", [ValueError, RecursionError, RuntimeError])
def test_a_repr_that_raises_is_told_not_raised(error: type[Exception]) -> None:
    assert show(Raises(error)) == f"<Raises object, repr failed with {error.__name__}>"


def test_a_repr_that_is_no_text_is_told_not_raised() -> None:
    wrong: Any = type("Wrong", (), {"__repr__": lambda self: 5})
    assert show(wrong()) == "<Wrong object, repr failed with TypeError>"


def test_an_address_is_never_shown() -> None:
    assert show(Bare()) == "Bare(...)"
    assert show(Bare) == repr(Bare)


def test_a_short_text_is_shown_whole_and_a_long_one_with_its_length() -> None:
    assert show("a" * 118) == repr("a" * 118)
    assert show("a" * 119) == f"'{'a' * 99}... (121 characters)"


def test_a_lone_surrogate_can_be_printed() -> None:
    shown = show(Code("\ud800"))
    assert shown == "\\ud800"
    assert shown.encode()


def test_code_is_shown_as_it_stands() -> None:
    assert show(Code("[Callback()]")) == "[Callback()]"
    assert show("[Callback()]") == "'[Callback()]'"


@given(st.one_of(st.text(), st.integers(), st.floats(), st.lists(st.text()), st.binary(max_size=500)))
def test_what_is_shown_is_short_and_can_be_encoded(value: object) -> None:
    assert len(show(value)) <= 130
    assert show(value).encode()


@given(
    st.one_of(
        st.text(max_size=90), st.integers(), st.booleans(), st.none(), st.lists(st.integers(), max_size=9)
    )
)
def test_a_literal_is_python_that_means_the_value(value: object) -> None:
    assert ast.literal_eval(literal(value)) == value


def test_a_literal_quotes_as_people_do() -> None:
    assert literal("gpu") == '"gpu"'
    assert literal(["a", 1]) == '["a", 1]'
    assert literal(Code("x")) == "x"


def test_nested_lists_are_no_endless_literal() -> None:
    endless: list[object] = []
    endless.append(endless)
    assert literal(endless) == "[[...]]"


def test_arguments_are_written_as_in_a_call() -> None:
    assert arguments({"accelerator": "gpu", "devices": 2}) == 'accelerator="gpu", devices=2'
    assert arguments({}) == ""


def test_the_nearest_name_is_found_whatever_its_case() -> None:
    assert nearest("fspd", ["ddp", "fsdp"]) == "fsdp"
    assert nearest("DDP", ["ddp", "fsdp"]) == "ddp"
    assert nearest("ddp", ["DDP"]) == "DDP"


def test_a_name_that_is_like_none_has_no_nearest() -> None:
    assert nearest("horse", ["ddp", "fsdp"]) is None
    assert nearest("ddp", []) is None


def test_a_name_of_enormous_length_is_not_compared() -> None:
    assert nearest("d" * 119, ["d" * 119]) == "d" * 119
    assert nearest("d" * 120, ["d" * 120]) is None


@given(names, st.lists(names, max_size=5))
def test_the_nearest_name_is_one_of_the_names(name: str, known: list[str]) -> None:
    assert nearest(name, known) in {None, *known}


def test_names_are_listed_for_a_sentence() -> None:
    assert listed(["cpu", "cuda"]) == "cpu, cuda"
    assert listed([]) == "nothing"


@given(st.text())
def test_a_text_literal_is_json_too(value: str) -> None:
    assert json.loads(literal(value)) == value
