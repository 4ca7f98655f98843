"""Writes the public names of the Lightning that is installed, by module: data/surface.json is made by it."""

from __future__ import annotations

import importlib
import json
import pkgutil
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import TypeVar

ROOTS = ("lightning.pytorch", "lightning.fabric")
PASSED_ON = ("enums", "exceptions", "logger", "rank_zero", "types", "warnings")
"""Modules, beside packages, whose users import from them what was made elsewhere."""


def modules(name: str) -> Iterator[tuple[str, ModuleType]]:
    """Yield a package and its public modules, as far as they can be imported here."""
    try:
        module = importlib.import_module(name)
    except ImportError as error:
        print(f"left out: {name}: {error}", file=sys.stderr)
        return
    yield name, module
    for part in pkgutil.iter_modules(getattr(module, "__path__", [])):
        if not part.name.startswith("_"):
            yield from modules(f"{name}.{part.name}")


def public(name: str, module: ModuleType) -> list[str]:
    """Return the names that a module lists or defines, and those of Lightning's own that it passes on."""
    passes_on = hasattr(module, "__path__") or name.rpartition(".")[2] in PASSED_ON
    found = set(getattr(module, "__all__", []))
    for known, value in vars(module).items():
        home = str(getattr(value, "__module__", ""))
        is_own = home == name
        is_passed = passes_on and home.partition(".")[0] in ("lightning", "lightning_utilities")
        is_alias = name.endswith("utilities.types") and (
            known.isupper() or known.startswith(("LR", "Optimi"))
        )
        is_gone = "_graveyard" in home or isinstance(value, (ModuleType, TypeVar))
        if (is_own or is_passed or is_alias) and not is_gone:
            found.add(known)
    return sorted(one for one in found if not one.startswith("_"))


def main() -> None:
    warnings.simplefilter("ignore")
    rows = {name: public(name, module) for root in ROOTS for name, module in modules(root)}
    lines = [f"{json.dumps(name)}: {json.dumps(names)}" for name, names in rows.items() if names]
    Path(sys.argv[1]).write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
