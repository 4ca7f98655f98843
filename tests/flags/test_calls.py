"""The grammar of strategy: names with options, joined by plus."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drivetrain.flags.calls import parse_calls, parse_value, write_call
from drivetrain.flags.problem import Problem

names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_.\-]{0,10}", fullmatch=True)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
    | st.sampled_from(
        [".5", "1", "1e5", "-3", "true", "None", "a=b", "x+y", "a,b", '"', "'", "(", " ", "/x.y"]
    ),
    lambda kept: st.lists(kept, max_size=3) | st.dictionaries(st.text(), kept, max_size=3),
    max_leaves=6,
)
calls = st.tuples(names, st.dictionaries(names, values, max_size=4))


def problem_of(text: str) -> Problem:
    with pytest.raises(Problem) as raised:
        parse_calls(text)
    return raised.value


def same(one: object, other: object) -> bool:
    """Equal, and of the same types: 1, 1.0 and True are three values here."""
    return repr(one) == repr(other)


@given(st.lists(calls, min_size=1, max_size=3))
def test_what_is_written_is_read_back_type_for_type(said: list[tuple[str, dict[str, Any]]]) -> None:
    text = "+".join(write_call(name, options) for name, options in said)
    assert same(parse_calls(text), said)


@given(values)
def test_what_is_written_twice_is_written_alike(value: Any) -> None:
    text = write_call("a", {"b": value})
    ((name, options),) = parse_calls(text)
    assert write_call(name, options) == text


@given(st.text() | st.text("ab+=(){}[],\"' \\1.", max_size=20))
def test_any_text_is_read_or_is_a_problem(text: str) -> None:
    try:
        found = parse_calls(text)
    except Problem:
        return
    assert all(name for name, _ in found)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ddp", [("ddp", {})]),
        (" ddp ( ) ", [("ddp", {})]),
        ("ddp(static_graph=true)", [("ddp", {"static_graph": True})]),
        ("ddp( a = 1 , b = x )", [("ddp", {"a": 1, "b": "x"})]),
        ("ddp(a=1,)", [("ddp", {"a": 1})]),
        ("fsdp + tp(size=2)", [("fsdp", {}), ("tp", {"size": 2})]),
        ('a(b="x+y,z")+c', [("a", {"b": "x+y,z"}), ("c", {})]),
        ('a(b="q\\"+")', [("a", {"b": 'q"+'})]),
        ('a(b=[1, 2], c={"d": [3]})', [("a", {"b": [1, 2], "c": {"d": [3]}})]),
        ("third-party.ddp", [("third-party.ddp", {})]),
    ],
)
def test_calls_are_names_with_options_joined_by_plus(text: str, expected: object) -> None:
    assert parse_calls(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no name at ''"),
        ("+tp", "has no name at ''"),
        ("fsdp+", "has no name at ''"),
        ("2ddp", "has no name at '2ddp'"),
        ("ddp x", "cannot be read at 'x'"),
        ("ddp()x", "cannot be read at '()x'"),
        ("ddp(1)", "has an option without a name: '1'"),
        ("ddp(a b=1)", "has an option without a name"),
        ("ddp(a=1,,b=2)", "has an option without a name: ''"),
        ("ddp(a=1, a=2)", "gives 'a' twice"),
        ("ddp(", "does not close a bracket or quote"),
        ("ddp)", "does not close a bracket or quote"),
        ('ddp(a="x)', "does not close a bracket or quote"),
        ("ddp(a=[1, x])", "is not JSON"),
        ('ddp(a="x" y)', "is not JSON"),
        ("ddp(a=)", "value '' cannot be read"),
        ("ddp(a=b=c)", "value 'b=c' cannot be read"),
    ],
)
def test_a_text_that_breaks_the_grammar_is_refused_at_its_place(text: str, message: str) -> None:
    assert message in problem_of(text).message


def test_a_text_of_ten_thousand_signs_is_read_and_a_longer_one_is_not() -> None:
    assert parse_calls("a" * 10_000) == [("a" * 10_000, {})]
    assert "too long" in problem_of("a" * 10_001).message


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true", True),
        ("False", False),
        ("none", None),
        ("null", None),
        ("7", 7),
        ("-7", -7),
        ("+7", 7),
        ("1.5", 1.5),
        (".5", 0.5),
        ("1.", 1.0),
        ("1e3", 1000.0),
        ("word", "word"),
        ("a.b/c:d-e", "a.b/c:d-e"),
        ('"7"', "7"),
        ("'7'", "7"),
        ("''", ""),
        ("[1, null]", [1, None]),
        ('{"a": 1}', {"a": 1}),
        (" 7 ", 7),
        ("2 GiB", "2 GiB"),
    ],
)
def test_a_value_is_read_as_the_plain_data_that_it_looks_like(text: str, value: object) -> None:
    assert same(parse_value(text), value)


@pytest.mark.parametrize("text", ["", " ", "'", '"', "'a", "a'b", "(x", "x]", "[1", "{", "a,b", "[" * 9_000])
def test_a_value_with_stray_signs_is_a_problem(text: str) -> None:
    with pytest.raises(Problem):
        parse_value(text)


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("cpu", "a(b=cpu)"),
        ("./x", "a(b=./x)"),
        ("true", 'a(b="true")'),
        (".5", 'a(b=".5")'),
        ("x y", 'a(b="x y")'),
        (True, "a(b=true)"),
        (None, "a(b=null)"),
        (2.0, "a(b=2.0)"),
        (10**18, "a(b=1000000000000000000)"),
    ],
)
def test_a_value_is_quoted_only_where_it_would_be_read_as_another(value: Any, written: str) -> None:
    assert write_call("a", {"b": value}) == written


def test_a_call_without_options_has_no_parentheses() -> None:
    assert write_call("ddp", {}) == "ddp"


def test_what_is_no_plain_data_is_shown_not_raised() -> None:
    thing: Any = object()
    assert write_call("a", {"b": thing}) == 'a(b="object(...)")'
    assert write_call("a", {"b": float("inf")}) == "a(b=Infinity)"
