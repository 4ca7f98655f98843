"""Runs scripts as a user would: a file in a folder, a fresh Python, no guard."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

HEAD = """
import os, sys, time
import torch
import drivetrain as dt
from drivetrain.base.where import HERE
from drivetrain.collectives.connect import connect, disconnect
from drivetrain.launchers.multiprocessing import MultiprocessingLauncher
from drivetrain.launchers.subprocess import SubprocessLauncher

plan = dt.plan(accelerator="cpu", devices=2, strategy="ddp")
cpu = torch.device("cpu")
"""


def write_script(folder: Path, text: str) -> Path:
    path = folder / "script.py"
    path.write_text(HEAD + textwrap.dedent(text))
    return path


def run_script(
    folder: Path, text: str, *command: str, timeout_s: float = 90
) -> subprocess.CompletedProcess[str]:
    path = write_script(folder, text)
    return subprocess.run(
        [sys.executable, *command, str(path)],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that only waits to be read by its parent does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def wait_until(is_so, timeout_s: float) -> bool:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if is_so():
            return True
        time.sleep(0.05)
    return False


def children() -> set[int]:
    """Return this process's running children."""
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[1]) == os.getpid():
            found.add(int(stat.parent.name))
    return found
