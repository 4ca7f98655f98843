"""Write generated files, or say with --check how those on disk differ."""

from __future__ import annotations

import argparse
import difflib
import pathlib
import sys
from collections.abc import Mapping

ROOT = pathlib.Path(__file__).parents[1]


def write_or_check(texts: Mapping[pathlib.Path, str], description: str) -> int:
    """Write each file; with ``--check`` on the command line only compare, and return 1 for a difference."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 where a file differs")
    is_check = parser.parse_args().check
    differ = False
    for path, text in texts.items():
        here = path.read_text(encoding="utf-8") if path.exists() else ""
        if here == text:
            continue
        differ = True
        if is_check:
            name = path.relative_to(ROOT).as_posix()
            lines = difflib.unified_diff(
                here.splitlines(keepends=True),
                text.splitlines(keepends=True),
                f"{name} (on disk)",
                f"{name} (as the code is now)",
            )
            sys.stdout.writelines(lines)
        else:
            path.write_text(text, encoding="utf-8")
    if differ and is_check:
        print(f"stale: run python scripts/{pathlib.Path(sys.argv[0]).name}")
    return int(differ and is_check)
