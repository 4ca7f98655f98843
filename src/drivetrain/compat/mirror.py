"""The modules of the mirror, made of the table, and the names under which they are known."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Mapping
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import drivetrain
from drivetrain.base.errors import CompatError
from drivetrain.compat.known_errors import learn_kinds
from drivetrain.compat.table import FABRIC, INSTEAD, LIGHTNING, MIRRORED, OWN, TOP
from drivetrain.launchers.worker import PRELUDES

_HERE = __name__.rpartition(".")[0]
_ROOTS = {
    f"{_HERE}.lightning": ("lightning.pytorch", "pytorch_lightning"),
    f"{_HERE}.fabric": ("lightning.fabric", "lightning_fabric"),
}
"""Our two packages, and the names that each also has after `install`."""
_PRELUDE = f"{_HERE}.lightning:install"


class Mirror(ModuleType):
    """A module whose names load when they are first used; those without an object say what to do."""

    _names: Mapping[str, str]

    def __getattr__(self, name: str) -> Any:
        """Load a name's object, or return a submodule.

        Raises:
            CompatError [compat.absent]: the name is Lightning's, and there is nothing for it here.
        """
        names: Mapping[str, str] = self.__dict__.get("_names", {})
        if name in names:
            value = found(names[name], f"{self.__name__}.{name}")
            setattr(self, name, value)
            return value
        part = sys.modules.get(f"{self.__name__}.{name}")
        if part is None:
            message = f"module {self.__name__!r} has no attribute {name!r}"
            raise AttributeError(message)
        return part

    def __dir__(self) -> list[str]:
        """List what is there."""
        return sorted({*super().__dir__(), *self.__all__, *_parts(self.__name__)})

    def __reduce__(self) -> tuple[Any, ...]:
        """Cross a process boundary by name, as every module does."""
        return importlib.import_module, (self.__name__,)

    @property
    def __all__(self) -> list[str]:
        """What ``import *`` takes: the names that have an object."""
        return sorted(name for name, target in self._names.items() if is_there(target))


def found(target: str, shown: str) -> Any:
    """Return the object that the table names.

    Raises:
        CompatError [compat.absent]: there is none.
    """
    home = OWN.get(target)
    if home is not None:
        return getattr(importlib.import_module(f"{_HERE}.{home}"), target)
    try:
        return getattr(drivetrain, target)
    except AttributeError:
        name = shown.rpartition(".")[2]
        raise CompatError(
            "compat.absent",
            f"{shown} has no counterpart in this release",
            values={"name": name, "mirrored": f"lightning {MIRRORED}"},
            because="a name that would do nothing is not there",
            hint=INSTEAD.get(target, "leave it out; docs/lightning.md lists what there is"),
        ) from None


def is_there(target: str) -> bool:
    """Whether the table's name has an object."""
    return target in OWN or hasattr(drivetrain, target)


def read(row: str) -> dict[str, str]:
    """Return a row of the table: which object each name is."""
    return {name: target or name for name, _, target in (word.partition("=") for word in row.split())}


def grow(root: str, table: Mapping[str, str]) -> None:
    """Make a package that is being imported the root of a mirror, with every module of the table below it."""
    top: Any = sys.modules[root]
    top.__class__ = Mirror
    top.__dict__.update(_names=read(table[""]), __version__=MIRRORED)
    for path, row in table.items():
        if path:
            _make(f"{root}.{path}", row, is_package=any(other.startswith(f"{path}.") for other in table))


def _make(name: str, row: str, *, is_package: bool) -> Mirror:
    module = Mirror(name, f"What {name.rpartition('.')[2]} of Lightning {MIRRORED} is here.")
    module.__spec__ = ModuleSpec(name, None, is_package=is_package)
    module.__dict__.update(_names=read(row))
    if is_package:
        module.__path__ = []
    sys.modules[name] = module
    return module


def _parts(name: str) -> Iterator[str]:
    for known in list(sys.modules):
        parent, _, last = known.rpartition(".")
        if parent == name:
            yield last


def install() -> None:
    """Let ``import lightning``, ``pytorch_lightning`` and ``lightning_fabric`` find the mirror.

    Also in the processes that a run starts. Call it before anything imports them; twice is once.

    Raises:
        CompatError [compat.imported]: Lightning itself is imported already.
    """
    for root in _ROOTS:
        importlib.import_module(root)
    for name in ("lightning", "pytorch_lightning", "lightning_fabric"):
        if not isinstance(sys.modules.get(name), (Mirror, type(None))):
            raise CompatError(
                "compat.imported",
                f"{name} is imported already, and is not the mirror",
                values={"name": name, "file": getattr(sys.modules[name], "__file__", None)},
                because="two libraries under one name in one process would be mixed up",
                hint="call install() first, or run the script by python -m drivetrain.compat.lightning",
            )
    if "lightning" not in sys.modules:
        top = _make("lightning", TOP, is_package=True)
        top.__version__ = MIRRORED  # type: ignore[attr-defined]  # a module takes any attribute
    for name, alias in _aliases():
        sys.modules[alias] = sys.modules[name]
    if _PRELUDE not in PRELUDES:
        PRELUDES.append(_PRELUDE)


def uninstall() -> None:
    """Undo `install`: the names are free for Lightning itself."""
    for _, alias in _aliases():
        sys.modules.pop(alias, None)
    sys.modules.pop("lightning", None)
    if _PRELUDE in PRELUDES:
        PRELUDES.remove(_PRELUDE)


def _aliases() -> Iterator[tuple[str, str]]:
    tables = dict(zip(_ROOTS, (LIGHTNING, FABRIC), strict=True))
    for root, names in _ROOTS.items():
        for path in tables[root]:
            for alias in names:
                yield f"{root}.{path}".rstrip("."), f"{alias}.{path}".rstrip(".")


learn_kinds()
