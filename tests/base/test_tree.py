from __future__ import annotations

from collections import OrderedDict, UserDict, namedtuple

from drivetrain.base.tree import leaves, map_leaves

Point = namedtuple("Point", "x y")  # noqa: PYI024 - what users write


class Movable(list):
    def to(self, device):
        return self


def test_every_leaf_is_changed_and_containers_keep_their_kind() -> None:
    value = {"a": [1, (2, Point(3, 4))], "o": OrderedDict(b=5), "u": UserDict(c=6)}
    changed = map_leaves(value, lambda leaf: leaf * 10)
    assert changed == {"a": [10, (20, Point(30, 40))], "o": OrderedDict(b=50), "u": UserDict(c=60)}
    assert type(changed["a"][1][1]) is Point
    assert type(changed["o"]) is OrderedDict
    assert value["u"]["c"] == 6


def test_what_does_not_change_is_not_copied() -> None:
    value = {"a": [1, (2, Point(3, 4))], "o": OrderedDict(b=5)}
    assert map_leaves(value, lambda leaf: leaf) is value


def test_an_object_that_moves_itself_is_a_leaf() -> None:
    movable = Movable([1])
    assert map_leaves([movable], lambda leaf: [leaf is movable]) == [[True]]


def test_leaves_come_with_their_path() -> None:
    assert dict(leaves({"a": [1, {"b": 2}], "c": ()})) == {"a[0]": 1, "a[1].b": 2}
