"""Files speak of the project: no path of one person's machine stands in them."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# Each name is bracketed in one place, so that this file does not hold what it looks for.
PLACES = re.compile(r"/wor[k]/|/tm[p]/[a-z]|/roo[t]/|/hom[e]/[a-z]|file:[/]{2,}[a-z]")


def tracked() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)  # noqa: S607 - git is looked up on PATH
    return [path for name in listed.stdout.split("\0") if name and (path := ROOT / name).is_file()]


def test_no_file_names_a_place_on_one_machine():
    found = []
    for path in tracked():
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError:  # a picture
            continue
        name = path.relative_to(ROOT).as_posix()
        found += [
            f"{name}:{n}: {line.strip()[:100]}" for n, line in enumerate(lines, 1) if PLACES.search(line)
        ]
    if found:
        pytest.fail("\n".join(found), pytrace=False)


def test_no_source_file_is_named_after_nothing():
    nothing = {"utils", "helpers", "common", "core", "misc", "manager", "connector"}
    found = [
        name for path in tracked() if nothing & set((name := path.relative_to(ROOT)).with_suffix("").parts)
    ]
    assert not found, f"a room is named after what lives in it: {found}"
