"""Walking nested containers."""

from __future__ import annotations

import collections
import dataclasses
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drivetrain.base.tree import leaves, map_leaves

nestings = st.recursive(
    st.integers() | st.text(max_size=3),
    lambda kept: (
        st.lists(kept, max_size=3)
        | st.tuples(kept, kept)
        | st.dictionaries(st.text(max_size=3), kept, max_size=3)
    ),
    max_leaves=12,
)


class Pair(NamedTuple):
    x: Any
    y: Any


class Triple(tuple):
    __slots__ = ()


class Rows(list):
    pass


@dataclasses.dataclass(frozen=True)
class Batch:
    x: Any
    y: Any = 0


class Movable:
    def __init__(self) -> None:
        self.rows = [1, 2]

    def to(self, device: str) -> str:
        return device


def grown(value: Any) -> Any:
    return value + 1


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1, 2),
        ([1, 2], [2, 3]),
        ((1, 2), (2, 3)),
        ({"a": 1, "b": [2]}, {"a": 2, "b": [3]}),
        (Pair(1, [2]), Pair(2, [3])),
        (Triple([1, 2]), Triple([2, 3])),
        (Rows([1, 2]), Rows([2, 3])),
        (collections.OrderedDict(a=1), collections.OrderedDict(a=2)),
        (collections.defaultdict(list, a=1), collections.defaultdict(list, a=2)),
        (Batch(1, {"z": 2}), Batch(2, {"z": 3})),
    ],
)
def test_every_leaf_is_changed_and_every_container_keeps_its_type(value: Any, expected: Any) -> None:
    changed = map_leaves(value, grown)
    assert changed == expected
    assert type(changed) is type(expected)


def test_the_container_that_was_given_is_not_written_into() -> None:
    given_ = [1, Rows([2]), {"a": 3}, Batch(4)]
    map_leaves(given_, grown)
    assert given_ == [1, Rows([2]), {"a": 3}, Batch(4)]


@pytest.mark.parametrize("value", [[1], (1,), {"a": 1}, Pair(1, 2), Triple([1]), Rows([1]), Batch(1)])
def test_a_container_in_which_nothing_changes_is_returned_itself(value: Any) -> None:
    assert map_leaves(value, lambda leaf: leaf) is value


def test_a_default_factory_survives() -> None:
    changed = map_leaves(collections.defaultdict(list, a=1), grown)
    assert changed["missing"] == []


def test_what_can_be_moved_is_a_leaf_whatever_it_holds() -> None:
    movable = Movable()
    seen: list[Any] = []
    map_leaves([movable], seen.append)
    assert seen == [movable]


def test_texts_sets_and_classes_are_leaves() -> None:
    seen: list[Any] = []
    map_leaves(["ab", {1}, Batch], seen.append)
    assert seen == ["ab", {1}, Batch]


def test_a_field_that_was_never_set_is_left_unset() -> None:
    batch = object.__new__(Batch)
    object.__setattr__(batch, "x", 1)
    assert map_leaves(batch, grown).x == 2


@given(nestings)
def test_leaves_are_what_map_leaves_changes_in_the_same_order(value: Any) -> None:
    seen: list[Any] = []
    map_leaves(value, lambda leaf: seen.append(leaf) or leaf)
    assert [leaf for _, leaf in leaves(value)] == seen


@given(st.recursive(st.integers(), lambda kept: st.lists(kept, max_size=4), max_leaves=12))
def test_no_two_leaves_of_lists_share_a_path(value: Any) -> None:
    paths = [path for path, _ in leaves(value)]
    assert len(set(paths)) == len(paths)


def test_a_path_leads_to_its_leaf() -> None:
    value = {"a": [1, {"b": (2,)}], "c": 3}
    assert dict(leaves(value)) == {"a[0]": 1, "a[1].b[0]": 2, "c": 3}
    assert list(leaves(5)) == [("", 5)]
    assert list(leaves([])) == []


def test_a_mapping_that_cannot_be_written_to_comes_back_as_a_dict() -> None:
    frozen = MappingProxyType({"a": 1})
    assert map_leaves(frozen, lambda leaf: leaf + 1) == {"a": 2}
    assert map_leaves(frozen, lambda leaf: leaf) is frozen
