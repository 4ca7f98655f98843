"""Every error code has its page in docs/errors, and every page its code.

A code is a text such as "plan.strategy-accelerator": the first argument (or ``code=``) of an error,
Conflict or Notice, or any other text in the source that looks like one.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
PAGES = ROOT / "docs" / "errors"
HEADINGS = ("Cause", "Fix", "Example")

CODE = re.compile(r"[a-z_]+\.[a-z0-9][a-z0-9-]*")
ROOM = re.compile(
    "accelerator|build|callback|checkpoint|cli|collectives|compat|data|engine|environment|flags|launch|logger|loop"
    "|machine|module|plan|precision|profiler|rank|strategy|trainer"
)
FILES = frozenset({"ckpt", "json", "md", "pt", "py", "png", "toml", "yaml"})


def raised(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the codes that are handed to an error, a Conflict or a Notice."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func).rpartition(".")[2]
        if not name.endswith(("Error", "Failure")) and name not in {"Conflict", "Notice"}:
            continue
        for value in (*node.args[:1], *(word.value for word in node.keywords if word.arg == "code")):
            if (
                isinstance(value, ast.Constant)
                and isinstance(value.value, str)
                and CODE.fullmatch(value.value)
            ):
                yield node.lineno, value.value


def written(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield every text that looks like a code of one of our rooms."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and CODE.fullmatch(node.value):
            room, _, what = node.value.partition(".")
            if ROOM.fullmatch(room) and what not in FILES:
                yield node.lineno, node.value


@functools.cache
def codes(root: Path) -> dict[str, str]:
    """Return every code with the first place that it stands in."""
    found: dict[str, str] = {}
    for path in sorted(root.rglob("*.py")):
        is_face = path.parent.parent == root and path.name == "__init__.py"
        if is_face or path.parts[-2:] == ("compat", "table.py"):
            continue  # tables name modules, which look like codes
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for line, code in sorted([*raised(tree), *written(tree)]):
            found.setdefault(code, f"{path.relative_to(root.parent).as_posix()}:{line}")
    return found


def pages() -> dict[str, str]:
    """Return the text of each page by its code; README.md is the index."""
    return {
        path.stem: path.read_text(encoding="utf-8") for path in PAGES.glob("*.md") if path.stem != "README"
    }


def test_every_code_has_its_page():
    there = pages()
    missing = [
        f"{place}: {code} has no docs/errors/{code}.md"
        for code, place in codes(SOURCE).items()
        if code not in there
    ]
    if missing:
        pytest.fail("\n".join(sorted(missing)), pytrace=False)


def test_every_page_has_its_code():
    unused = sorted(set(pages()) - set(codes(SOURCE)))
    assert not unused, f"pages in docs/errors of codes that nothing raises: {unused}"


def test_every_code_names_a_room():
    strange = [
        f"{place}: {code}" for code, place in codes(SOURCE).items() if not ROOM.fullmatch(code.split(".")[0])
    ]
    assert not strange, f"a code is <room>.<what>, with a room of {ROOM.pattern}; these are not: {strange}"


def test_every_page_says_cause_fix_and_example():
    wrong = []
    for code, text in sorted(pages().items()):
        titles = re.findall(r"^#+ (.+?)\s*$", text, flags=re.MULTILINE)
        wrong += [f"{code}.md does not start with '# {code}'"] if titles[:1] != [code] else []
        wrong += [f"{code}.md has no heading '{one}'" for one in HEADINGS if one not in titles]
    if wrong:
        pytest.fail("\n".join(wrong), pytrace=False)


def test_codes_are_found_where_they_are_raised(tmp_path):
    (tmp_path / "a.py").write_text(
        'raise DataError("data.one", "text")\n'
        'raise errors.PlanError((Conflict(code="plan.two"),))\n'
        'raise RankFailure("odd.three", "text")\n'
        'MISSING_CODE = "checkpoint.four"\n'
        'raise ValueError("no code"); open("plan.md"); x = "data.frame of plan.five"\n'
    )
    assert sorted(codes(tmp_path)) == ["checkpoint.four", "data.one", "odd.three", "plan.two"]
