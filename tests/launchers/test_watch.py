from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from drivetrain.launchers import watch
from drivetrain.launchers.report import crash_file
from drivetrain.launchers.watch import Watch


class SlowPeer:
    """Writes its stack late, and in parts, as a process of a busy machine does."""

    rank = 1

    def __init__(self, path: Path, parts: list[str]) -> None:
        self.path, self.parts = path, parts

    def ask_for_stack(self) -> None:
        threading.Thread(target=self._write).start()

    def _write(self) -> None:
        for part in self.parts:
            time.sleep(0.1)
            with self.path.open("a") as file:
                file.write(part)


def stack_of(tmp_path: Path, parts: list[str]) -> str:
    found = Watch(tmp_path, lambda: "")
    peer: Any = SlowPeer(crash_file(tmp_path, 1), parts)
    found.add(peer)
    return found.stack(1)


def test_a_stack_is_read_when_it_is_whole(tmp_path: Path) -> None:
    parts = [f"line {number}\n" for number in range(5)]
    assert stack_of(tmp_path, parts) == "".join(parts)


def test_a_process_that_shows_none_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "_STACK_S", 0.1)
    assert not stack_of(tmp_path, [])
