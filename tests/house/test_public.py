"""The public surface: frozen in public.txt, lazy, and light.

After a change that is meant: UPDATE_PUBLIC=1 ./scripts/test tests/house/test_public.py
"""

from __future__ import annotations

import enum
import inspect
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import drivetrain

SNAPSHOT = Path(__file__).with_name("public.txt")
UPDATE = "UPDATE_PUBLIC"

LOADED = """
import json, sys
import drivetrain
alone = sorted(sys.modules)
import torch
before = set(sys.modules)
missing = [name for name in drivetrain.__all__ if not hasattr(drivetrain, name)]
added = sorted(set(sys.modules) - before)
print(json.dumps({"alone": alone, "added": added, "missing": missing}))
"""


def signature(function: object, *, is_method: bool = False) -> str:
    """Return names, order and defaults of the parameters; types are the type checker's to compare."""
    parameters = list(inspect.signature(function).parameters.values())[is_method:]
    bare = [one.replace(annotation=inspect.Parameter.empty) for one in parameters]
    return re.sub(r" at 0x[0-9a-f]+", "", str(inspect.Signature(bare)))


def is_ours(kind: type) -> bool:
    return kind.__module__.partition(".")[0] == drivetrain.__name__


def construction(kind: type) -> str:
    """Return the signature of a class; nothing where Python's own class says how it is made."""
    maker = next(base for base in kind.__mro__ if {"__init__", "__new__"} & set(vars(base)))
    return signature(kind) if is_ours(maker) and not issubclass(kind, enum.Enum) else ""


def members(kind: type, public: set[type]) -> Iterator[str]:
    """Yield the lines of a class's public attributes, without those that a public base has already."""
    shown = {base for base in kind.__mro__[1:] if base in public}
    hidden = {base for parent in shown for base in parent.__mro__}
    ours = [base for base in kind.__mro__ if is_ours(base) and base not in hidden]
    for name in sorted({name for base in ours for name in vars(base) if not name.startswith("_")}):
        value = inspect.getattr_static(kind, name)
        is_method = inspect.isfunction(value)
        if is_method or isinstance(value, staticmethod | classmethod):
            yield f"  .{name}{signature(getattr(kind, name), is_method=is_method)}"
        else:
            yield f"  .{name}"


def surface() -> Iterator[str]:
    """Yield the lines of the snapshot."""
    things = {name: getattr(drivetrain, name) for name in sorted(drivetrain.__all__)}
    public = {thing for thing in things.values() if inspect.isclass(thing)}
    for name, thing in things.items():
        if inspect.isclass(thing):
            bases = ", ".join(base.__name__ for base in thing.__bases__ if base is not object)
            yield f"class {name}{construction(thing)}" + (f" <- {bases}" if bases else "")
            yield from members(thing, public)
        elif callable(thing):
            yield f"{name}{signature(thing)}"
        else:
            yield name


@pytest.fixture(scope="module")
def loaded() -> dict[str, list[str]]:
    done = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_surface_is_the_frozen_one():
    now = "\n".join(surface()) + "\n"
    if os.environ.get(UPDATE):
        SNAPSHOT.write_text(now, encoding="utf-8")
    frozen = SNAPSHOT.read_text(encoding="utf-8") if SNAPSHOT.exists() else ""
    new = [f"+ {line}" for line in now.splitlines() if line not in frozen.splitlines()]
    gone = [f"- {line}" for line in frozen.splitlines() if line not in now.splitlines()]
    how = f"if it is meant: {UPDATE}=1 ./scripts/test tests/house/test_public.py, and a line in CHANGELOG.md"
    if now != frozen:
        pytest.fail("\n".join(["the public surface changed", *gone, *new, how]), pytrace=False)


def test_every_public_name_resolves(loaded):
    assert loaded["missing"] == []


def test_public_names_are_sorted_and_listed_once():
    names = [name for name in drivetrain.__all__ if name != "__version__"]
    assert names == sorted(set(names))
    assert set(names) <= set(dir(drivetrain))


def test_importing_the_package_loads_no_torch(loaded):
    heavy = {"torch", "numpy", "rich", "jsonargparse", "fsspec", "cloudpickle"}
    assert sorted(heavy & set(loaded["alone"])) == []


def test_public_names_load_no_compiler(loaded):
    assert [name for name in loaded["added"] if name.startswith(("torch._dynamo", "sympy"))] == []


def test_public_names_load_no_optional_package(loaded):
    optional = (
        "matplotlib",
        "sklearn",
        "tensorboard",
        "wandb",
        "mlflow",
        "deepspeed",
        "transformers",
        "tqdm",
    )
    assert [name for name in loaded["added"] if name.partition(".")[0] in optional] == []


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'Trainor'"):
        drivetrain.Trainor  # noqa: B018 - reading the attribute is the test
