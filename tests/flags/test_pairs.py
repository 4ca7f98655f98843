"""Pairs on the command line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drivetrain.flags.pairs import parse_counts, parse_variables
from drivetrain.flags.problem import Problem

kinds = st.from_regex(r"[a-z]{3,6}", fullmatch=True).filter(lambda kind: kind != "cpu")


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        ("cuda=8", {"cuda": 8}),
        ("cuda=8,tpu=0", {"cuda": 8, "tpu": 0}),
        (" cuda = 8 , tpu=1, ", {"cuda": 8, "tpu": 1}),
        ("cuda=99999", {"cuda": 99999}),
        ("cpu", {}),
        ("cpu,cuda=1", {"cuda": 1}),
        ("", {}),
    ],
)
def test_counts_are_kinds_with_numbers(text: str, counts: dict[str, int]) -> None:
    assert parse_counts(text) == counts


@pytest.mark.parametrize(
    "text", ["cuda", "cuda=", "cuda=x", "cuda=-1", "cuda=1.0", "=8", "cpu=4", "cuda=100000", "cuda=1,cuda=2"]
)
def test_a_kind_without_a_number_a_number_without_a_kind_and_a_kind_twice_are_refused(text: str) -> None:
    with pytest.raises(Problem, match="cannot be read at") as raised:
        parse_counts(text)
    assert "cuda=8,tpu=0" in raised.value.because


@given(st.dictionaries(kinds, st.integers(0, 65536), max_size=4))
def test_counts_are_read_back_as_written(counts: dict[str, int]) -> None:
    assert parse_counts(",".join(f"{kind}={count}" for kind, count in counts.items())) == counts


@given(st.text())
def test_any_text_gives_counts_or_a_problem(text: str) -> None:
    try:
        counts = parse_counts(text)
    except Problem:
        return
    assert all(kind and count >= 0 for kind, count in counts.items())


@pytest.mark.parametrize(
    ("pairs", "variables"),
    [
        ([], {}),
        (["A=1", "B=2"], {"A": "1", "B": "2"}),
        (["A="], {"A": ""}),
        (["A=b=c"], {"A": "b=c"}),
        (["A= 1 "], {"A": " 1 "}),
        (["A=1", "A=2"], {"A": "2"}),
    ],
)
def test_a_variable_is_everything_after_the_first_equals_sign(
    pairs: list[str], variables: dict[str, str]
) -> None:
    assert parse_variables(pairs) == variables


@pytest.mark.parametrize("pair", ["A", "", "=1", "="])
def test_a_pair_without_a_name_or_a_value_is_refused(pair: str) -> None:
    with pytest.raises(Problem, match="no name and value"):
        parse_variables(["B=2", pair])
