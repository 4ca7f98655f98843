"""What README and docs show of the command is what the command prints."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from drivetrain.cli.main import main

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"```\n\$ (drivetrain plan [^\n]*)\n(.*?)```", re.DOTALL)
SHOWN = [
    (path.name, command, output)
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
    for command, output in BLOCK.findall(path.read_text())
]


def test_there_is_something_to_compare() -> None:
    assert any(name == "README.md" for name, *_ in SHOWN)


@pytest.mark.parametrize(("name", "command", "output"), SHOWN)
def test_a_command_prints_what_is_shown(
    name: str, command: str, output: str, capsys: pytest.CaptureFixture[str]
) -> None:
    main(shlex.split(command)[1:])
    captured = capsys.readouterr()
    assert (captured.out + captured.err).rstrip() == output.rstrip()
