"""The floors of the package, read off its syntax: one law is one function that yields its breaches.

A breach is a line of text, ``path:line: what is wrong``, so that a list of them reads as a report.
"""

from __future__ import annotations

import ast
import graphlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

FLOORS = (
    {"_version", "base"},
    {"machine", "flags", "events"},
    {"resolver"},
    {"accelerators", "checkpoint_io", "collectives", "data", "environments", "precision"},
    {"modules", "sim", "strategies"},
    {"build", "callbacks", "launchers", "loggers", "loops", "profilers"},
    {"trainer", "engine"},
    {"program"},
    {"cli", "compat", "demo", "tuner"},
    {"__main__"},
)
"""Rooms (files or folders of the package) by floor; an import goes to a lower floor or stays at home."""

FLOOR = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}
TORCH_FLOOR = 3
PUBLIC_FLOOR = 8
PROBE = "machine/probe.py"

_DEVICES = ("torch.cuda", "torch.xpu", "torch.mps", "torch.mtia", "torch.accelerator", "torch.backends.mps")
_PRESENCE = {"is_available", "device_count", "is_built"}
_QUERIES = {
    "current_device",
    "get_arch_list",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "is_bf16_supported",
    "is_initialized",
    "max_memory_allocated",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
}
_ENVIRONMENT = {f"os.{name}" for name in ("environ", "environb", "getenv", "getenvb", "putenv", "unsetenv")}


@dataclass(frozen=True)
class Import:
    """One imported name, absolute: ``from ..base import errors`` is ``drivetrain.base.errors``."""

    name: str
    line: int
    is_hidden: bool
    """Whether it stands in a function, or is made from a text by ``import_module("...")``."""


@dataclass(frozen=True)
class File:
    """One source file of the package."""

    path: Path
    root: Path

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.path.read_text(encoding="utf-8"), str(self.path))

    @property
    def place(self) -> str:
        """Its path inside the package: ``machine/probe.py``."""
        return self.path.relative_to(self.root).as_posix()

    @property
    def room(self) -> str:
        """The first folder or file of its path; ``__init__`` for the package's own."""
        return self.place.partition("/")[0].removesuffix(".py")

    @property
    def module(self) -> str:
        """Its dotted name; a package's is that of its folder."""
        parts = (self.root.name, *self.path.relative_to(self.root).with_suffix("").parts)
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    def absolute(self, node: ast.ImportFrom) -> str:
        """The module that a ``from`` import names, relative ones included."""
        if not node.level:
            return node.module or ""
        parts = self.module.split(".")
        up = node.level - (self.path.name == "__init__.py")
        return ".".join([*parts[: len(parts) - up], *([node.module] if node.module else [])])

    @cached_property
    def imports(self) -> list[Import]:
        functions = (n for n in ast.walk(self.tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef))
        hidden = {node for function in functions for node in ast.walk(function)}
        found = []
        for node in ast.walk(self.tree):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [f"{self.absolute(node)}.{alias.name}" for alias in node.names]
            elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
                called = ast.unparse(node.func).rpartition(".")[2]
                names = [str(node.args[0].value)] if called in {"import_module", "__import__"} else []
            is_hidden = node in hidden or isinstance(node, ast.Call)
            found += [Import(name, node.lineno, is_hidden) for name in names]
        return found

    @cached_property
    def uses(self) -> list[tuple[int, str]]:
        """Every dotted name that is read, with the names that imports gave undone, and its line."""
        called: dict[str, str] = {}
        found: list[tuple[int, str]] = [(one.line, one.name) for one in self.imports]
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                origin = f"{self.absolute(node)}." if isinstance(node, ast.ImportFrom) else ""
                for alias in node.names:
                    first = alias.name if alias.asname or origin else alias.name.partition(".")[0]
                    called[alias.asname or first] = origin + first
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Attribute):
                first, _, rest = ast.unparse(node).partition(".")
                found.append((node.lineno, f"{called.get(first, first)}.{rest}"))
        return found

    def breach(self, line: int, text: str) -> str:
        return f"{self.root.name}/{self.place}:{line}: {text}"


def files(root: Path) -> list[File]:
    """Return the package's source files; ``root`` is the package's folder."""
    return [File(path, root) for path in sorted(root.rglob("*.py"))]


def rooms_are_known(package: list[File]) -> Iterator[str]:
    """Every room has its floor."""
    for file in package:
        if file.room != "__init__" and file.room not in FLOOR:
            yield file.breach(1, f"room {file.room!r} is on no floor; give it one in tests/house/floors.py")


def imports_go_down(package: list[File]) -> Iterator[str]:
    """An import goes to a strictly lower floor or stays in its room; also under TYPE_CHECKING."""
    for file in package:
        if file.room not in FLOOR:
            continue
        here = FLOOR[file.room]
        for one in file.imports:
            top, _, rest = one.name.partition(".")
            there = rest.partition(".")[0]
            if top != file.root.name or there == file.room:
                continue
            if there not in FLOOR:
                if here < PUBLIC_FLOOR:
                    text = f"imports {one.name}: no such room; below floor {PUBLIC_FLOOR}, import from rooms"
                    yield file.breach(one.line, text)
            elif FLOOR[there] >= here:
                text = f"floor {here} ({file.room}) imports floor {FLOOR[there]} ({there}): {one.name}"
                yield file.breach(one.line, text)


def face_is_lazy(package: list[File]) -> Iterator[str]:
    """The package's ``__init__`` imports the standard library and the version, no room."""
    for file in package:
        if file.room != "__init__":
            continue
        for one in file.imports:
            top = one.name.partition(".")[0]
            is_version = one.name.startswith(f"{file.root.name}._version")
            if not is_version and top not in sys.stdlib_module_names:
                yield file.breach(one.line, f"the package's face imports {one.name}: it may only name it")


def no_import_is_hidden(package: list[File]) -> Iterator[str]:
    """A first-party import stands at the top of its file."""
    for file in package:
        for one in file.imports:
            if one.is_hidden and one.name.partition(".")[0] == file.root.name:
                yield file.breach(one.line, f"import of {one.name} is hidden in a function")


def modules_make_no_cycle(package: list[File]) -> Iterator[str]:
    """Modules do not import each other in a ring, through a package's ``__init__`` neither."""
    by_name = {file.module: file for file in package}
    graph: dict[str, set[str]] = {name: set() for name in by_name}
    for name, file in by_name.items():
        for one in file.imports:
            target = one.name
            while target and target not in by_name:
                target = target.rpartition(".")[0]
            if not target or one.is_hidden:
                continue
            graph[name].add(target)
            # Importing a.b.c runs a and a.b first, unless they run already, since we are inside.
            while (target := target.rpartition(".")[0]) and not f"{name}.".startswith(f"{target}."):
                graph[name].add(target)
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        first = by_name[error.args[1][-1]]
        yield first.breach(1, "import cycle: " + " -> ".join(reversed(error.args[1])))


def torch_stays_upstairs(package: list[File]) -> Iterator[str]:
    """Floors 0 to 2 load without torch; only the probe asks it, inside functions."""
    for file in package:
        if FLOOR.get(file.room, TORCH_FLOOR) >= TORCH_FLOOR or file.place == PROBE:
            continue
        for one in file.imports:
            if one.name.partition(".")[0] == "torch":
                yield file.breach(one.line, f"imports {one.name} below floor {TORCH_FLOOR}")


def only_the_probe_reads(package: list[File]) -> Iterator[str]:
    """Environment variables and devices are read in machine/probe.py and nowhere else.

    An accelerator's own file sets up its devices, moves data and reads memory statistics; whether
    and how many devices there are, it is told.
    """
    for file in package:
        if file.place == PROBE:
            continue
        for line, name in file.uses:
            if name in _ENVIRONMENT:
                yield file.breach(line, f"{name} outside of {PROBE}")
            space, _, what = name.rpartition(".")
            if space not in _DEVICES:
                continue
            is_query = what in _QUERIES or space in {"torch.xpu", "torch.accelerator"}
            if what in _PRESENCE or (is_query and file.room != "accelerators"):
                yield file.breach(line, f"{name} asks for devices outside of {PROBE}")


LAWS = (
    rooms_are_known,
    imports_go_down,
    face_is_lazy,
    no_import_is_hidden,
    modules_make_no_cycle,
    torch_stays_upstairs,
    only_the_probe_reads,
)
