"""Each row of docs/pitfalls.md names tests that show it, and these tests are there."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "pitfalls.md"
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
HEAD = "| elsewhere | here | shown by |"


def rows(text: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the cells of the tables' rows, with their lines, without heads and what is below these."""
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("|") and line != HEAD and not set(line) <= set("|-"):
            yield number, [cell.strip() for cell in line.strip("|").split("|")]


@functools.cache
def found_in(path: Path) -> frozenset[str]:
    """Return the names of a file's tests, read off its syntax; none where there is no file."""
    if not path.is_file():
        return frozenset()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    classes = [
        node.body for node in tree.body if isinstance(node, ast.ClassDef) and node.name.startswith("Test")
    ]
    found = (node for body in (tree.body, *classes) for node in body if isinstance(node, ast.FunctionDef))
    return frozenset(node.name for node in found if node.name.startswith("test_"))


def breaches(text: str) -> Iterator[str]:
    """Yield what is wrong with a page, a line each."""
    for number, cells in rows(text):
        named = NAMED.findall(cells[-1])
        if len(cells) != 3 or not all(cells):
            yield f"{number}: a row says what happens elsewhere, what here, and which test shows it"
        elif not named or NAMED.sub("", cells[-1]).replace(",", "").strip():
            yield f"{number}: the last cell is a list of `tests/<file>.py::<test>`: {cells[-1]}"
        for path, name in named:
            if name not in found_in(ROOT / path):
                yield f"{number}: there is no {path}::{name}"


def test_each_pitfall_names_tests_that_are_there() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert len(list(rows(text))) > 40
    found = list(breaches(text))
    if found:
        pytest.fail("\n".join(found), pytrace=False)


@pytest.mark.parametrize(
    ("cell", "wrong"),
    [
        ("`tests/house/test_pitfalls.py::test_each_pitfall_names_tests_that_are_there`", ""),
        ("`tests/house/test_pitfalls.py::test_of_something_else`", "there is no"),
        ("`tests/house/test_nothing.py::test_each_pitfall_names_tests_that_are_there`", "there is no"),
        ("`tests/house/test_pitfalls.py::rows`", "there is no"),
        ("it is so", "the last cell is a list"),
        ("", "a row says"),
    ],
)
def test_a_row_without_a_test_is_found(cell: str, wrong: str) -> None:
    found = list(breaches(f"{HEAD}\n|---|---|---|\n| hangs | ends | {cell} |\n"))
    assert len(found) == bool(wrong)
    assert all(line.startswith("3: ") and wrong in line for line in found)
