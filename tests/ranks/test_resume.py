"""A run killed with SIGKILL and resumed in another process equals the uninterrupted one, bit for bit."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.loops.models import differing

pytestmark = pytest.mark.ranks

SCRIPT = Path(__file__).with_name("resume_script.py")
ROOT = SCRIPT.parents[2]


def start(mode: str, folder: Path, world_size: int, num_workers: int) -> subprocess.Popen[str]:
    command = [sys.executable, str(SCRIPT), mode, str(folder), str(world_size), str(num_workers)]
    variables = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}"}
    return subprocess.Popen(
        command, env=variables, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=folder
    )


def ended(process: subprocess.Popen[str], code: int) -> None:
    output, _ = process.communicate(timeout=120)
    assert process.returncode == code, output


@pytest.mark.parametrize(("world_size", "num_workers"), [(1, 0), (1, 2), (2, 0), (2, 2)])
def test_resumed_equals_uninterrupted(tmp_path: Path, world_size: int, num_workers: int) -> None:
    whole = start("whole", tmp_path, world_size, num_workers)
    ended(start("kill", tmp_path, world_size, num_workers), -9)
    ended(start("resume", tmp_path, world_size, num_workers), 0)
    ended(whole, 0)

    one, other = (torch.load(tmp_path / f"{name}.ckpt", weights_only=True) for name in ("whole", "resume"))

    assert one["global_step"] == 3 * -(-11 // world_size)
    assert len(one["rng"]) == world_size
    assert not differing(one, other)
