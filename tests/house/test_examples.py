"""The python blocks of README.md and docs run as they stand there (see examples.py for their marks)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.examples import Block, as_json, blocks, run

ROOT = Path(__file__).parents[2]
SECONDS = 280

ALL = list(blocks(ROOT))
SKIPPED = [block for block in ALL if block.info == "notest"]
RUN = [block for block in ALL if block.info != "notest"]


@pytest.fixture(scope="module")
def wrong(tmp_path_factory) -> dict[str, str]:
    """Run every block in one process, so that torch is imported once; a file tells what went wrong."""
    folder = tmp_path_factory.mktemp("examples")
    answer = folder / "answer.json"
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("examples.py")), str(answer)],
        input=as_json(RUN),
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(answer.read_text(encoding="utf-8"))


@pytest.mark.parametrize("block", RUN, ids=lambda block: block.place)
def test_the_example_runs(block, wrong):
    if wrong[block.place]:
        pytest.fail(f"{block.place}\n{wrong[block.place]}", pytrace=False)


def test_every_mark_is_known():
    strange = [block.place for block in RUN if block.info and not block.info.startswith("raises=")]
    assert not strange, f"after ```python comes nothing, raises=<code> or notest: {strange}"


def test_a_skipped_example_says_why():
    silent = [block.place for block in SKIPPED if not block.text.lstrip().startswith("#")]
    assert not silent, f"the first line of a notest block is a comment with the reason: {silent}"


@pytest.mark.parametrize(
    ("info", "text", "answer"),
    [
        ("", "x = 1", ""),
        ("", "import drivetrain as dt\ndt.nothing", "no attribute 'nothing'"),
        ("", "raise SystemExit(0)", "SystemExit"),
        ("", "def f(): return __name__\nassert f() == '__main__'", ""),
        (
            "raises=plan.unreadable",
            "import drivetrain as dt\ndt.DataError('data.x', 'y')",
            "nothing was raised",
        ),
        ("raises=data.x", "import drivetrain as dt\nraise dt.DataError('data.x', 'y')", ""),
        ("raises=data.z", "import drivetrain as dt\nraise dt.DataError('data.x', 'y')", "[data.x] y"),
    ],
)
def test_a_wrong_example_is_found(info, text, answer):
    found = run(Block("docs/page.md", 7, info, text))
    assert answer in found if answer else not found, found


def test_a_traceback_shows_the_page_and_its_line():
    assert 'File "docs/page.md", line 8' in run(Block("docs/page.md", 7, "", "x = 1\n1 / 0"))


def test_blocks_are_found_with_their_lines(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "README.md").write_text("# A\n\n```python\nx = 1\n```\n\n```\nno\n```\n")
    (tmp_path / "docs" / "a.md").write_text("```python raises=plan.x\ny\n```\n```python notest\n# why\n```\n")
    found = [(block.place, block.info) for block in blocks(tmp_path)]
    assert found == [("README.md:4", ""), ("docs/a.md:2", "raises=plan.x"), ("docs/a.md:5", "notest")]
