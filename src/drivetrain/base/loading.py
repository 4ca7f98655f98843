"""How the package's modules are loaded when a name of theirs is first used."""

from __future__ import annotations

import _thread
import gc
import importlib
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, final

_LOCK = _thread.allocate_lock()
_STATE = {"loading": 0, "collects": False}


def load(name: str) -> ModuleType:
    """Import a module without Python's cyclic garbage collector, which goes on as it was afterwards.

    Modules, classes and functions stay. A full collection while they are made would look at every object of
    torch as well, which takes as long as loading all of the library.
    """
    with _LOCK:  # held for the counter only: an import within it could wait for another thread's
        if not _STATE["loading"]:
            _STATE["collects"] = gc.isenabled()
            gc.disable()
        _STATE["loading"] += 1
    try:
        return importlib.import_module(name)
    finally:
        with _LOCK:
            _STATE["loading"] -= 1
            if not _STATE["loading"] and _STATE["collects"]:
                gc.enable()


@final
class Later:
    """A module of the package that is loaded when something of it is first used.

    It stands where types are not checked, in place of an import of the module::

        if TYPE_CHECKING:
            from drivetrain.checkpoint_io import scan
        else:
            scan = Later("drivetrain.checkpoint_io.scan")
    """

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the module has
        return getattr(load(self._name), name)


def at_home(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return a package's ``__getattr__`` and ``__dir__``: the public names that are at home in it.

    Each is loaded when it is asked for, so that a run loads the few callbacks that it has, and not all.
    """

    def names() -> list[str]:
        face: Any = sys.modules[package.partition(".")[0]]
        inside = f"{package.partition('.')[2]}."
        return [name for name, home in face._HOME.items() if f"{home}.".startswith(inside)]  # noqa: SLF001 - the table of public names

    def find(name: str) -> Any:  # noqa: ANN401 - any public name
        if name not in names():
            message = f"module {package!r} has no attribute {name!r}"
            raise AttributeError(message)
        return getattr(sys.modules[package.partition(".")[0]], name)

    return find, names
