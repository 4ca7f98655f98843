"""Five projects log the same numbers as under Lightning itself, at the same steps.

data/curves.json was made by Lightning (scripts/compare-lightning). Both run in single precision, and another
build of torch or another processor sums in another order, which training makes more of: on a processor where
ours and Lightning's are equal digit by digit, both were off the file by 2 in ten thousand. So numbers are
equal to a part in a thousand.
"""

from __future__ import annotations

import importlib.util
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from drivetrain.compat import mirror

HERE = Path(__file__).parent
RELATIVE, ABSOLUTE = 1e-3, 1e-5
THEIRS: dict[str, Any] = json.loads((HERE / "data" / "curves.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def five():
    mirror.install()
    spec = importlib.util.spec_from_file_location("five", HERE / "five.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    mirror.uninstall()


def differences(theirs: Any, ours: Any, place: str = "") -> Iterator[str]:
    """Yield a line for each number, name or length that is another."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        for name in sorted({*theirs, *ours}):
            if name not in theirs or name not in ours:
                yield f"{place}/{name}: only in {'Lightning' if name in theirs else 'ours'}"
            else:
                yield from differences(theirs[name], ours[name], f"{place}/{name}")
    elif isinstance(theirs, list) and isinstance(ours, list):
        if len(theirs) != len(ours):
            yield f"{place}: {len(theirs)} there, {len(ours)} here"
        for number, pair in enumerate(zip(theirs, ours, strict=False)):
            yield from differences(*pair, f"{place}/{number}")
    elif isinstance(theirs, float) and isinstance(ours, float):
        if not math.isclose(theirs, ours, rel_tol=RELATIVE, abs_tol=ABSOLUTE):
            yield f"{place}: {theirs} there, {ours} here"
    elif theirs != ours or type(theirs) is not type(ours):
        yield f"{place}: {theirs!r} there, {ours!r} here"


@pytest.mark.parametrize("name", THEIRS)
def test_the_curves_are_those_of_lightning(five, name):
    found = [*differences(THEIRS[name], json.loads(json.dumps(five.run(name))))]
    if found:
        pytest.fail("\n".join(found[:40]), pytrace=False)


def test_all_five_are_compared_and_say_something(five):
    assert list(THEIRS) == list(five.PROJECTS)
    points = {name: sum(map(len, kept["curves"].values())) for name, kept in THEIRS.items()}
    assert min(points.values()) >= 28, points


def test_a_difference_is_found():
    theirs = {"a": [1.0, 2.0], "b": "x", "c": 1}
    assert [*differences(theirs, {"a": [1.0, 2.003], "b": "y", "d": 1})] == [
        "/a/1: 2.0 there, 2.003 here",
        "/b: 'x' there, 'y' here",
        "/c: only in Lightning",
        "/d: only in ours",
    ]
    assert [*differences([1], [1, 2])] == [": 1 there, 2 here"]
