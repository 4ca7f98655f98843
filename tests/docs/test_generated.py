"""Documentation that is written by a script is as the script writes it today."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ERRORS = sorted(path for path in (ROOT / "docs" / "errors").glob("*.md") if path.stem != "README")
PURE = [path for path in ERRORS if path.stem.startswith(("plan.", "machine."))]

SCRIPTS = ["generate_plan_docs.py", "generate_error_docs.py"]


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_generated_file_is_what_its_script_writes_today_and_no_torch_is_loaded(script: str) -> None:
    done = run(
        "import runpy, sys\n"
        f"sys.argv = ['scripts/{script}', '--check']\n"
        "sys.path.insert(0, 'scripts')\n"
        "try:\n"
        f"    runpy.run_path('scripts/{script}', run_name='__main__')\n"
        "finally:\n"
        "    assert 'torch' not in sys.modules, 'torch is loaded'\n"
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_file_that_differs_is_shown_and_not_written(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("old\n")
    check = (
        "import pathlib, sys\n"
        "sys.path.insert(0, 'scripts')\n"
        "import written\n"
        f"written.ROOT = pathlib.Path({str(tmp_path)!r})\n"
        f"texts = {{pathlib.Path({str(page)!r}): 'new\\n'}}\n"
        "sys.exit(written.write_or_check(texts, ''))\n"
    )
    done = run(f"import sys; sys.argv = ['generate.py', '--check']\n{check}")
    assert done.returncode == 1
    assert "-old\n+new\n" in done.stdout
    assert page.read_text() == "old\n"
    assert run(f"import sys; sys.argv = ['generate.py']\n{check}").returncode == 0
    assert page.read_text() == "new\n"


@pytest.mark.parametrize("path", PURE, ids=lambda path: path.stem)
def test_the_example_of_a_page_prints_the_error_that_the_page_is_about(path: Path) -> None:
    """That the text is today's is the check above; here: it is there, and the right one comes first."""
    found = re.search(r"```python\n.*?```\n\n```text\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    assert found[1].startswith(f"[{path.stem}] ")
    assert found[1].endswith(f"docs: errors/{path.stem}\n")
