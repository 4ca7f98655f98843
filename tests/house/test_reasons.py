"""Nothing is waved through in silence: each suppression in the code says beside it why it is there."""

from __future__ import annotations

import io
import re
import subprocess
import tokenize
from pathlib import Path

ROOT = Path(__file__).parents[2]
_RULES = re.compile(r"#\s*(noqa|type:\s*ignore)\b")
_GOOD = re.compile(r"^# noqa: [A-Z0-9]+(, [A-Z0-9]+)* - \S.*|^# type: ignore\[[\w, -]+\]  # \S.*")


def bare(text: str) -> list[tuple[int, str]]:
    """Return the lines and comments that suppress a rule without its name and a reason."""
    found = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type != tokenize.COMMENT or not _RULES.match(token.string):
            continue
        said = token.string
        if not _GOOD.match(said) or re.search(r"# noqa: [A-Z0-9, ]+$", said):
            found.append((token.start[0], said))
    return found


def test_every_suppression_names_its_rule_and_its_reason() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "*.py", "*.pyi"],  # noqa: S607 - wherever git is installed
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    wrong = [
        f"{name}:{line}: {said}"
        for name in listed.stdout.split("\0")
        if name and (ROOT / name).exists()
        for line, said in bare((ROOT / name).read_text(encoding="utf-8"))
    ]
    assert not wrong, "\n".join(wrong)


def test_what_the_rule_sees() -> None:
    good = "a = 1  # noqa: E501 - a table\nb = 1  # type: ignore[misc]  # torch has no types\n"
    assert bare(good) == []
    both = "c = 1  # type: ignore[misc]  # noqa: SLF001 - no public way\n"
    assert bare(both) == []
    for wrong in ("# noqa", "# noqa: E501", "# type: ignore", "# type: ignore[misc]", "# noqa: E501 -"):
        assert len(bare(f"a = 1  {wrong}\n")) == 1
    assert bare('text = "# noqa"\n') == []
