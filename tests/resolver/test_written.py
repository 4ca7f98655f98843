"""Values and calls as code."""

from __future__ import annotations

import dataclasses
import pathlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

import drivetrain as dt
from drivetrain.base.text import Code
from drivetrain.resolver.written import brief, written, written_call


@dataclasses.dataclass
class Kept:
    """An object that keeps its arguments."""

    folder: str
    every: int = 5


class Lost:
    """An object that does not."""

    def __init__(self, folder: str) -> None:
        self.where = folder


class Hostile:
    """An object whose every answer is an exception."""

    def __getattribute__(self, name: str) -> object:
        raise RuntimeError(name)


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda kept: (
        st.lists(kept, max_size=3)
        | st.lists(kept, max_size=3).map(tuple)
        | st.dictionaries(st.text() | st.integers(), kept, max_size=3)
    ),
    max_leaves=5,
)


@given(plain)
def test_what_is_written_makes_the_value_again(value: object) -> None:
    text = written(value)
    if "characters)" not in text:  # what is too long to be printed is shortened
        assert repr(eval(text)) == repr(value)  # noqa: S307 - the text that we wrote ourselves


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("it's", '"it\'s"'),
        (["a", ("b",)], '["a", ("b",)]'),
        ({"a": [1.5]}, '{"a": [1.5]}'),
        (pathlib.Path("a/b"), '"a/b"'),
        (float("inf"), 'float("inf")'),
        (int, "int"),
        (Code("dt.X()"), "dt.X()"),
        (dt.DDPStrategy(static_graph=True), '"ddp(static_graph=true)"'),
        (
            dt.DDPStrategy(precision="16-mixed", devices=[0]),
            'dt.StrategySpec("ddp", devices=[0], precision="16-mixed")',
        ),
        (
            dt.FSDPStrategy(precision=16) + dt.TPStrategy(size=2),
            'dt.StrategySpec("fsdp", precision=16) + dt.StrategySpec("tp", size=2)',
        ),
        (dt.PrecisionFacts("mine", title="My own"), 'dt.PrecisionFacts("mine", title="My own")'),
        (dt.MixedPrecision("bf16-mixed"), 'dt.MixedPrecision("bf16-mixed")'),
        (dt.LocalCheckpointIO(), "dt.LocalCheckpointIO()"),
        (dt.SLURMEnvironment(), "dt.SLURMEnvironment()"),
        (Kept("x"), 'Kept("x")'),
        (Kept("x", 6), 'Kept("x", every=6)'),
        (Lost("x"), "Lost(...)"),
    ],
)
def test_texts_stand_in_double_quotes_and_objects_as_they_are_made(value: object, text: str) -> None:
    assert written(value) == text


def test_a_spec_with_parts_is_made_again_with_them() -> None:
    spec = dt.DDPStrategy(precision="16-mixed", static_graph=True) + dt.TPStrategy(size=2)
    again = eval(written(spec), {"dt": dt})  # noqa: S307 - the text that we wrote ourselves
    assert again == spec
    assert again.parts == spec.parts


def test_anything_can_be_written() -> None:
    loop: list[object] = []
    loop.append(loop)
    for value in (Hostile(), loop, list(range(10_000)), 10**6000, object(), lambda: 0):
        assert written(value)
        assert len(brief(value)) < 200


def test_a_call_is_written_with_its_arguments() -> None:
    assert (
        written_call("plan", {"accelerator": "gpu", "devices": [0]}) == 'plan(accelerator="gpu", devices=[0])'
    )
