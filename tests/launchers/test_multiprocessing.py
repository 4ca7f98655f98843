from __future__ import annotations

import importlib
import os
from pathlib import Path

import pytest

import drivetrain as dt
from drivetrain.launchers.multiprocessing import MultiprocessingLauncher

pytestmark = pytest.mark.ranks


def test_copies_of_a_process_find_loaded_what_each_would_load(tmp_path: Path, monkeypatch) -> None:
    told = tmp_path / "told"
    (tmp_path / "slow_to_load.py").write_text(
        f"import os\nwith open({str(told)!r}, 'a') as f: f.write(f'{{os.getpid()}}\\n')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    launcher = MultiprocessingLauncher("fork")
    launcher.ahead = ("slow_to_load",)
    plan = dt.plan(accelerator="cpu", devices=3, strategy="ddp", launcher="fork")
    launcher.launch(plan, lambda _: importlib.import_module("slow_to_load"))
    assert told.read_text().split() == [str(os.getpid())]
