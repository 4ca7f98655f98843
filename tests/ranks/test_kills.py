"""SIGKILL at random moments of a run that saves each step: no torn checkpoint, and the same end always."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.ranks

SCRIPT = Path(__file__).with_name("kill_script.py")
ROOT = SCRIPT.parents[2]


@pytest.mark.parametrize("kills", [5, pytest.param(50, marks=pytest.mark.long)])
def test_a_killed_run_goes_on_to_the_same_end(tmp_path: Path, kills: int) -> None:
    seed = random.SystemRandom().randrange(1 << 30)  # other moments each time; the message has it
    variables = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}"}
    found = subprocess.run(
        [sys.executable, str(SCRIPT), str(tmp_path), str(kills), str(seed)],
        env=variables,
        cwd=tmp_path,
        text=True,
        capture_output=True,
        timeout=280,
        check=False,
    )
    assert found.returncode == 0, f"seed {seed}: {found.stderr}"
    counts = json.loads(found.stdout.splitlines()[-1])
    assert counts["kills"] == kills
    print(counts)
