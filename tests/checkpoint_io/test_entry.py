from __future__ import annotations

import pytest
import torch

import drivetrain as dt
from drivetrain.checkpoint_io.entry import Entry

TOP = Entry({"a": {"list": [1, 2], "n": -1, "t": torch.zeros(2, 3), "yes": True, "x": 1.5}}, "a.ckpt")


def test_entries_are_read_by_kind() -> None:
    a = TOP["a"]
    assert [one.integer() for one in a["list"].each(2)] == [1, 2]
    assert a["n"].integer(-1) == -1
    assert a["x"].number() == 1.5
    assert a["yes"].flag()
    assert a["t"].tensor((2, 3)).shape == (2, 3)
    assert [name for name, _ in a.named()] == [*a.mapping()]


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (lambda: TOP["b"], "b is missing"),
        (lambda: TOP["a"]["list"]["x"], r"a.list is a list, and not a dict"),
        (lambda: TOP["a"]["list"].each(3), "a.list has 2 items, and not 3"),
        (TOP["a"]["n"].integer, "a.n is -1, and cannot be below 0"),
        (TOP["a"]["yes"].integer, "a.yes is a bool, and not a whole number"),
        (TOP["a"]["list"].each()[1].text, r"a.list\[1\] is a int, and not a text"),
        (TOP["a"]["t"].number, "a.t is a Tensor, and not a number"),
        (lambda: TOP["a"]["t"].tensor((3,)), r"a.t has the shape \[2, 3\], and not \[3\]"),
        (TOP["a"]["x"].tensor, "a.x is a float, and not a tensor"),
        (lambda: TOP["a"].check_like({"x": True}), "a.x is a float, and not True or False"),
        (lambda: TOP["a"].check_like({"t": 0.0}), r"a.t has the shape \[2, 3\], and not one value"),
        (lambda: TOP["a"].check_like({"y": None}), "a.y is missing"),
        (lambda: Entry({1: 2}, "a.ckpt", "a").named().__next__(), "a has the key 1"),
        (lambda: Entry([], "a.ckpt", "a").check_like([1]), "a is empty"),
        (lambda: Entry(3, "a.ckpt")["x"], "the checkpoint is a int, and not a dict"),
    ],
)
def test_what_is_not_as_it_should_be_is_named(read, text: str) -> None:
    with pytest.raises(dt.CheckpointError, match=rf"checkpoint.damaged\] a.ckpt: {text}"):
        read()


def test_what_an_owner_says_of_an_entry_is_told_with_its_name() -> None:
    with (
        pytest.raises(dt.CheckpointError, match=r"a.ckpt: a.list cannot be taken up: no entry 'k'"),
        TOP["a"]["list"].reading(),
    ):
        {}["k"]
    with pytest.raises(dt.CheckpointError, match=r"a.ckpt: mine.x is missing"), TOP["a"].reading():
        Entry({}, "", "mine")["x"]
    with pytest.raises(dt.ModuleError, match="own words"), TOP["a"].reading():
        raise dt.ModuleError("module.log-value", "own words")


def test_a_list_of_as_many_items_is_compared_item_by_item() -> None:
    Entry([{"a": 1}, {"b": 2}], "a.ckpt", "x").check_like([{"a": 0}, {"b": 0}])
    Entry([0.1, 0.2, 0.3], "a.ckpt", "x").check_like([0.1])
    with pytest.raises(dt.CheckpointError, match=r"x\[1\].b is missing"):
        Entry([{"a": 1}, {"a": 2}], "a.ckpt", "x").check_like([{"a": 0}, {"b": 0}])
