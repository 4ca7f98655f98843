"""Write src/drivetrain/__init__.pyi: the public names, for type checkers and editors.

The package loads its names lazily from one table; a test compares the stub with the table.
"""

from __future__ import annotations

import pathlib

import drivetrain

STUB = pathlib.Path(__file__).parents[1] / "src" / "drivetrain" / "__init__.pyi"


def stub() -> str:
    """Return the stub's text."""
    homes = drivetrain._HOMES  # noqa: SLF001 - the table that the stub mirrors
    lines = [
        '"""Public names; written by scripts/generate_stub.py."""',
        "",
        "from drivetrain._version import __version__ as __version__",
    ]
    for home, names in sorted(homes.items()):
        lines += [f"from drivetrain.{home} import {name} as {name}" for name in sorted(names)]
    return "\n".join([*lines, "", "__all__: list[str]", ""])


if __name__ == "__main__":
    STUB.write_text(stub())
