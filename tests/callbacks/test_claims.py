from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from drivetrain.callbacks.claims import Claims
from tests.callbacks.scripted import names


def test_a_name_is_taken_by_one_run_only_and_free_again_afterwards(tmp_path: Path) -> None:
    one, other, path = Claims(), Claims(), tmp_path / "new" / "a.ckpt"
    assert one.take(str(path))
    assert not other.take(str(path))
    other.release()
    assert not other.take(str(path))
    one.release()
    assert names(path.parent) == []
    assert other.take(str(path))
    path.write_text("there")
    other.release()
    assert not one.take(str(path))
    assert names(path.parent) == ["a.ckpt"]


def test_where_nothing_can_be_locked_the_save_itself_says_what_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert Claims().take("memory://claims/a.ckpt")
    assert Claims().take(str(tmp_path / "file" / "a.ckpt"))


@pytest.mark.ranks
def test_a_killed_process_holds_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.ckpt"
    code = (
        "import sys, time; from drivetrain.callbacks.claims import Claims; claims = Claims();"
        f"print(claims.take({str(path)!r}), flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "True\n"
        assert not Claims().take(str(path))
        process.kill()
        process.wait()
    claims = Claims()
    assert names(tmp_path) == [".a.ckpt.claim"]
    assert claims.take(str(path))
    claims.release()
    assert names(tmp_path) == []


def test_a_file_that_its_holder_has_removed_is_no_claim(tmp_path: Path, monkeypatch) -> None:
    """The other run lets go between our opening the file and our locking it."""
    path, claim = tmp_path / "a.ckpt", tmp_path / ".a.ckpt.claim"
    opened = os.open

    def removed_at_once(name, flags):
        found = opened(name, flags)
        claim.unlink()
        return found

    monkeypatch.setattr(os, "open", removed_at_once)
    assert not Claims().take(str(path))
