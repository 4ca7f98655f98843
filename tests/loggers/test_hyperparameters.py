from __future__ import annotations

import argparse
import dataclasses
import enum
import functools
import types
from collections import namedtuple
from pathlib import Path

import jsonargparse
import numpy as np
import pytest
import torch
import yaml

import drivetrain as dt
from drivetrain.loggers.hyperparameters import as_yaml, flat, plain


class Color(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Optimizer:
    lr: float = 0.1
    betas: tuple[float, float] = (0.9, 0.99)


Point = namedtuple("Point", "x y")  # noqa: PYI024 - the untyped kind is what is tested


def activation() -> None:
    pass


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (True, True),
        (3, 3),
        (0.5, 0.5),
        ("text", "text"),
        (np.float64(0.25), 0.25),
        (np.int64(3), 3),
        (np.array([1, 2]), [1, 2]),
        (np.zeros((8, 8)), "ndarray (8, 8)"),
        (torch.tensor(2.5), 2.5),
        (torch.tensor([1, 2]), [1, 2]),
        (torch.zeros(100, 100), "Tensor (100, 100)"),
        (torch.float16, "torch.float16"),
        (torch.device("cpu"), "cpu"),
        (Path("a/b"), "a/b"),
        (Color.RED, "red"),
        (Optimizer(), {"lr": 0.1, "betas": [0.9, 0.99]}),
        (Point(1, 2), {"x": 1, "y": 2}),
        (argparse.Namespace(a=1), {"a": 1}),
        (types.SimpleNamespace(a=1), {"a": 1}),
        (jsonargparse.Namespace(a=jsonargparse.Namespace(b=1)), {"a": {"b": 1}}),
        ({1: "one", Color.RED: 2}, {"1": "one", "red": 2}),
        ((1, [2, {"a": 3}]), [1, [2, {"a": 3}]]),
        ({3, 1}, [1, 3]),
        (range(3), [0, 1, 2]),
        (torch.nn.functional.relu, "torch.nn.functional.relu"),
        (torch.nn.ReLU, "torch.nn.modules.activation.ReLU"),
        (activation, f"{__name__}.activation"),
        (functools.partial(torch.optim.SGD, lr=0.1), "torch.optim.sgd.SGD(lr=0.1)"),
        (torch.nn.ReLU(), "ReLU()"),
        (object(), "object(...)"),
        (1 + 2j, "(1+2j)"),
        (b"raw", "b'raw'"),
    ],
)
def test_any_value_becomes_plain_data(value, expected) -> None:
    found = plain({"it": value})["it"]
    assert found == expected
    assert type(found) is type(expected)
    assert yaml.safe_load(as_yaml({"it": found})) == {"it": expected}


def test_namespaces_and_dataclasses_are_parameters_too() -> None:
    assert plain(argparse.Namespace(a=1)) == {"a": 1}
    assert plain(Optimizer()) == {"lr": 0.1, "betas": [0.9, 0.99]}
    assert plain(None) == {}


def test_what_holds_itself_ends() -> None:
    loop: dict = {"a": 1}
    loop["self"] = loop
    loop["list"] = [loop]
    assert plain(loop) == {"a": 1, "self": "...", "list": ["..."]}
    shared = {"x": 1}
    assert plain({"one": shared, "two": shared}) == {"one": {"x": 1}, "two": {"x": 1}}


def test_flat_names_lead_to_each_value() -> None:
    params = {
        "lr": 0.1,
        "net": {"sizes": [1, 2], "act": None, "none": {}},
        "layers": [{"n": 1}, {"n": 2}],
        "optimizer": Optimizer(),
    }
    assert flat(params) == {
        "lr": 0.1,
        "net/sizes": "[1, 2]",
        "net/act": None,
        "net/none": "{}",
        "layers/0/n": 1,
        "layers/1/n": 2,
        "optimizer/lr": 0.1,
        "optimizer/betas": "[0.9, 0.99]",
    }
    assert flat({}) == {}


def test_no_flat_name_hides_another() -> None:
    with pytest.raises(dt.LoggerError, match=r"logger.name-clash.*'a/b'"):
        flat({"a/b": 1, "a": {"b": 2}})


def test_yaml_keeps_order_and_letters() -> None:
    assert as_yaml({"b": "für", "a": [1, 2], "nan": float("nan")}) == "b: für\na:\n- 1\n- 2\nnan: .nan\n"
