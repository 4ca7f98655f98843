"""Write docs/errors/README.md, and into the pages of plan and machine errors what their examples print.

The pages are written by hand; this runs the first python block of each and puts its output into the
text block that follows it. With --check nothing is written, and the exit status is 1 for a difference.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import re
import sys

from written import ROOT, write_or_check

PAGES = ROOT / "docs" / "errors"
INDEX = PAGES / "README.md"
EXAMPLE = re.compile(r"```python\n(?P<code>.*?)```\n\n```text\n(?P<printed>.*?)```", re.DOTALL)
PURE = ("machine", "plan")
"""Rooms whose errors are made without torch, processes or files, so that each example runs at once."""

INTRODUCTION = """
# Errors and warnings

Every error and warning begins with its code in square brackets and ends with the name of its page here.
The first line says what happened; below it stand the values that took part and where each came from,
the rule, and hints that were tried before they are shown. Catch all with `dt.DrivetrainError`, those of
flags with `dt.PlanError`, whose `conflicts` hold the same as data.
"""


def example(page: str) -> re.Match[str] | None:
    """Return the page's example: its code and what it prints."""
    return EXAMPLE.search(page)


def output(code: str) -> str:
    """Run an example as a script of the name train.py, which its errors name, and return what it prints."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "train.py", "exec"), {"__name__": "__main__"})  # noqa: S102 - our own pages
    return printed.getvalue()


def renewed(page: str) -> str:
    """Return the page with what its example prints today."""
    found = example(page)
    if found is None:
        return page
    start, end = found.span("printed")
    return page[:start] + output(found["code"]) + page[end:]


def index(pages: dict[str, str]) -> str:
    """Return the index: by room, each code with the first paragraph of its page."""
    lines = [INTRODUCTION.strip()]
    for room, codes in itertools.groupby(sorted(pages), lambda code: code.partition(".")[0]):
        lines += ["", f"## {room}", "", "| code | meaning |", "|---|---|"]
        lines += [f"| [{code}]({code}.md) | {_first_paragraph(pages[code])} |" for code in codes]
    return "\n".join(lines) + "\n"


def _first_paragraph(page: str) -> str:
    return " ".join(page.split("\n\n")[1].split())


def main() -> int:
    """Write or check the index and the examples' outputs."""
    paths = {path.stem: path for path in sorted(PAGES.glob("*.md")) if path != INDEX}
    pages = {code: path.read_text(encoding="utf-8") for code, path in paths.items()}
    texts = {paths[code]: renewed(page) for code, page in pages.items() if code.partition(".")[0] in PURE}
    return write_or_check({INDEX: index(pages), **texts}, (__doc__ or "").partition("\n")[0])


if __name__ == "__main__":
    sys.exit(main())
