"""The python blocks of the documentation, and the program that runs them in one process.

A block's first line says how it runs::

    ```python                                      runs, and must not raise
    ```python raises=plan.strategy-accelerator     must raise the library's error with that code
    ```python notest                               is skipped; its first line is a comment that says why
"""

from __future__ import annotations

import json
import re
import sys
import traceback
import types
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

_BLOCK = re.compile(r"^```python([^\n]*)\n(.*?)^```\s*$", flags=re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """One block of python in one page."""

    page: str
    line: int
    info: str
    text: str

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"


def blocks(root: Path) -> Iterator[Block]:
    """Yield the blocks of README.md and of every page in docs."""
    for path in [root / "README.md", *sorted((root / "docs").rglob("*.md"))]:
        page = path.read_text(encoding="utf-8")
        for found in _BLOCK.finditer(page):
            line = page.count("\n", 0, found.start(2)) + 1
            yield Block(path.relative_to(root).as_posix(), line, found[1].strip(), found[2])


def run(block: Block) -> str:
    """Run a block as a script of its own; return what is wrong, or nothing."""
    raises = block.info.removeprefix("raises=") if block.info.startswith("raises=") else None
    # Workers look up what a script defines in __main__, so each block is __main__ while it runs.
    main = types.ModuleType("__main__")
    before, sys.modules["__main__"] = sys.modules["__main__"], main
    try:
        # Blank lines before it make a traceback's lines those of the page.
        code = compile("\n" * (block.line - 1) + block.text, block.page, "exec")
        exec(code, main.__dict__)  # noqa: S102 - running our own documentation is what this is for
    except BaseException as error:  # noqa: BLE001 - a SystemExit in a page is a failure as well
        if raises is not None and getattr(error, "code", None) == raises:
            return ""
        inside = error.__traceback__.tb_next if error.__traceback__ else None  # without this function's frame
        return "".join(traceback.format_exception(type(error), error, inside))
    finally:
        sys.modules["__main__"] = before
    return f"nothing was raised; {raises} was to be" if raises else ""


def main() -> None:
    """Run the blocks given as JSON on standard input; write what is wrong with each to the file named."""
    given = [Block(**block) for block in json.load(sys.stdin)]
    wrong = {block.place: run(block) for block in given}
    Path(sys.argv[1]).write_text(json.dumps(wrong), encoding="utf-8")


def as_json(given: list[Block]) -> str:
    return json.dumps([asdict(block) for block in given])


if __name__ == "__main__":
    main()
