"""How the package's modules are loaded when a name of theirs is first used."""

from __future__ import annotations

import _thread
import gc
import importlib
from types import ModuleType

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
