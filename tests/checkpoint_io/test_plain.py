from __future__ import annotations

import enum
import io
import warnings
from collections import Counter, OrderedDict, UserDict, defaultdict, namedtuple
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import drivetrain as dt
from drivetrain.checkpoint_io.plain import as_plain


class Color(str, enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


class Bare(enum.Enum):
    ONE = 1


class Named(dict):
    pass


class OwnTensor(torch.Tensor):
    pass


Point = namedtuple("Point", "x y")  # noqa: PYI024 - untyped, as users write it


def restored(value: Any) -> Any:
    """Return what comes back of a checkpoint, through torch alone."""
    file = io.BytesIO()
    torch.save(as_plain({"it": value}, "a.ckpt"), file)
    file.seek(0)
    return torch.load(file, weights_only=True)["it"]


def equal(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor):
        both = isinstance(other, torch.Tensor) and one.dtype is other.dtype and one.shape == other.shape
        return both and one.tolist() == other.tolist()
    if isinstance(one, dict):
        return [*one] == [*other] and all(equal(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(equal, one, other))
    return bool(one == other) and isinstance(other, bool) == isinstance(one, (bool, np.bool_))


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (defaultdict(list, a=[1]), {"a": [1]}),
        (Point(1, Point(2, 3)), (1, (2, 3))),
        (torch.ones(2).max(0), (torch.tensor(1.0), torch.tensor(0))),
        ({Color.RED: 1, Level.HIGH: 2}, {"red": 1, 3: 2}),
        ([Color.RED, Level.HIGH], ["red", 3]),
        (np.float64(1.5), 1.5),
        (np.float32(0.1), float(np.float32(0.1))),
        ({np.int64(2): np.bool_(True)}, {2: True}),
        (np.str_("a"), "a"),
        (torch.__version__, str(torch.__version__)),
        (Counter("aab"), Counter(a=2, b=1)),
        (OrderedDict(a=defaultdict(int, b=1)), OrderedDict(a={"b": 1})),
        (torch.Size([2, 3]), torch.Size([2, 3])),
        (torch.strided, torch.strided),
    ],
)
def test_what_has_an_equal_plain_form_is_given_it(value: Any, plain: Any) -> None:
    found = restored(value)
    assert type(found) is type(plain)
    assert equal(plain, found)


def cyclic() -> list[Any]:
    value: list[Any] = [0]
    value.append(value)
    return value


def deep() -> list[Any]:
    value: list[Any] = []
    for _ in range(400):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({1}, "a.b is a set"),
        (Bare.ONE, "a.b is a Bare"),
        ({Bare.ONE: 1}, r"a.b.Bare.ONE is a Bare"),
        ({frozenset(): 1}, "is a frozenset"),
        ({torch.zeros(1): 1}, "is a Tensor as a key"),
        (Named(x=1), "a.b is a Named"),
        (UserDict(x=1), "a.b is a UserDict"),
        (MappingProxyType({"x": 1}), "a.b is a mappingproxy"),
        (type("Mine", (list,), {})([1]), "a.b is a Mine"),
        (np.zeros(2), "a.b is a ndarray"),
        (np.datetime64(1, "s"), "a.b is a datetime64"),
        (Path("x"), "a.b is a PosixPath"),
        ([0, OwnTensor(1)], r"a.b\[1\] is a OwnTensor"),
        (torch.zeros(2, device="meta"), "on the meta device"),
        (torch.nn.UninitializedParameter(), "UninitializedParameter"),
        (torch.channels_last, "a.b is a memory_format"),
        (b"", "a.b is a bytes without any byte"),
        (1 << 5000, "a.b is a int of 5001 bits"),
        (cyclic(), r"a.b\[1\] is a list that contains itself"),
        (deep(), "a list inside of 100 others"),
    ],
)
def test_what_has_none_is_refused_by_name(value: Any, text: str) -> None:
    with pytest.raises(dt.CheckpointError, match=rf"checkpoint.not-plain\] .*{text}"):
        as_plain({"a": {"b": value}}, "a.ckpt")


def test_what_is_plain_is_not_copied_and_nothing_is_changed_in_place() -> None:
    inner, mixed = {"x": [1, (2, torch.zeros(1))]}, {"d": defaultdict(int, a=1)}
    given = {"inner": inner, "mixed": mixed}
    found = as_plain(given, "a.ckpt")
    assert found["inner"] is inner
    assert type(mixed["d"]) is defaultdict
    assert type(found["mixed"]["d"]) is dict


def test_a_state_dict_keeps_the_versions_of_its_parts() -> None:
    state = torch.nn.BatchNorm1d(2).state_dict()
    assert restored(state)._metadata == state._metadata
    state["extra"] = defaultdict(int)
    assert restored(state)._metadata == state._metadata


def test_what_hangs_on_a_tensor_stays_behind() -> None:
    tensor = torch.zeros(2, requires_grad=True)
    tensor.mine = object()
    other = torch.ones(2, requires_grad=True)
    other.register_hook(lambda grad: grad)
    assert equal(restored([tensor, other]), [torch.zeros(2), torch.ones(2)])


def test_a_tensor_that_torch_cannot_write_is_named(tmp_path: Path) -> None:
    tensor = torch.zeros(2, dtype=torch.uint8).view(torch.uint1)
    with pytest.raises(dt.CheckpointError, match=r"checkpoint.not-plain\] .*entry a\[1\]"):
        dt.LocalCheckpointIO().save({"a": [1, tensor]}, tmp_path / "a.ckpt")
    assert not [*tmp_path.iterdir()]


_NUMBERS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-(1 << 2100), 1 << 2100),
    st.floats(allow_nan=False),
    st.complex_numbers(allow_nan=False),
    st.text(),
    st.binary(),
    st.sampled_from(
        [Color.RED, Level.HIGH, Bare.ONE, torch.float16, torch.device("cpu"), torch.Size([1, 2])]
    ),
    st.sampled_from([np.float32(0.5), np.int8(3), np.bool_(False), np.str_("x"), np.complex64(1j)]),
)
_KEYS = st.one_of(_NUMBERS, st.tuples(_NUMBERS, st.integers()), st.builds(Point, _NUMBERS, _NUMBERS))
_TENSORS = st.builds(
    lambda shape, dtype: torch.arange(int(np.prod(shape))).reshape(shape).to(dtype),
    st.lists(st.integers(0, 3), max_size=3),
    st.sampled_from([torch.float32, torch.float64, torch.int64, torch.bool, torch.bfloat16, torch.complex64]),
)
_VALUES = st.recursive(
    st.one_of(_NUMBERS, _TENSORS, st.builds(set)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.builds(Point, inner, inner),
        st.dictionaries(_KEYS, inner, max_size=4),
        st.dictionaries(_KEYS, inner, max_size=4).map(OrderedDict),
        st.dictionaries(_KEYS, inner, max_size=4).map(lambda found: defaultdict(list, found)),
    ),
    max_leaves=12,
)


@settings(deadline=None, max_examples=60)
@given(_VALUES)
def test_whatever_is_accepted_is_read_back_equal(value: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            found = restored(value)
        except dt.CheckpointError as error:
            assert error.code == "checkpoint.not-plain"  # noqa: PT017 - the other answer that is right
            return
    assert equal(value, found)
