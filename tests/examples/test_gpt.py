from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.ranks
@pytest.mark.slow
def test_a_small_gpt_learns_on_two_processes() -> None:
    command = [sys.executable, "examples/gpt.py", "accelerator=cpu", "devices=2", "strategy=ddp", "steps=20"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "step 20  loss 3." in done.stdout
