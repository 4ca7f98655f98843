"""Runs a script that imports Lightning, here and in the processes that it starts.

A process that Python's ``spawn`` starts runs the script again as its main module, before anything else. So
the script has a module's name here, one that holds its path; whoever imports it has the mirror first.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import CodeType, ModuleType
from typing import final

from drivetrain.compat.mirror import install

_PREFIX = f"{__name__.rpartition('.')[0]}.lightning.script_"
_USAGE = "usage: python -m drivetrain.compat.lightning script.py [args]"


def main(arguments: Sequence[str]) -> int:
    """Run the script named first as ``__main__``, with the other arguments as its own."""
    if not arguments or arguments[0].startswith("-"):
        print(_USAGE, file=sys.stderr)
        return 2
    path = Path(arguments[0]).resolve()
    if not path.is_file():
        print(f"{_USAGE}\nno such file: {arguments[0]}", file=sys.stderr)
        return 2
    install()
    sys.argv[:] = [arguments[0], *arguments[1:]]
    sys.path[0] = str(path.parent)
    module = ModuleType("__main__")
    module.__file__, module.__spec__ = str(path), _spec(_PREFIX + str(path).encode().hex())
    module.__dict__["__builtins__"] = builtins
    sys.modules["__main__"] = module
    exec(_code(path), module.__dict__)  # noqa: S102 - running the user's script is what this is for
    return 0


def _code(path: Path) -> CodeType:
    return compile(path.read_bytes(), str(path), "exec")


@final
class Scripts:
    """Finds and loads a script by the module's name that holds its path."""

    @classmethod
    def find_spec(cls, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """Return the spec of a script, or None for any other name."""
        return _spec(name) if name.startswith(_PREFIX) else None

    @staticmethod
    def create_module(spec: ModuleSpec) -> ModuleType | None:
        """Let Python make the module."""
        return None

    @classmethod
    def exec_module(cls, module: ModuleType) -> None:
        """Run the script in a module."""
        exec(cls.get_code(module.__name__), module.__dict__)  # noqa: S102 - as above

    @staticmethod
    def get_code(name: str) -> CodeType:
        """Return the script's code; it finds the mirror when it runs."""
        install()
        return _code(Path(_path(name)))


def _path(name: str) -> str:
    return bytes.fromhex(name.removeprefix(_PREFIX)).decode()


def _spec(name: str) -> ModuleSpec:
    spec = ModuleSpec(name, Scripts, origin=_path(name))  # type: ignore[arg-type]  # a class that is its object
    spec.has_location = True
    return spec


def learn_scripts() -> None:
    """Let Python find scripts by these names."""
    if Scripts not in sys.meta_path:
        sys.meta_path.append(Scripts)
