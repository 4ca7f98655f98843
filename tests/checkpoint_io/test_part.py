from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from drivetrain.checkpoint_io import part
from drivetrain.checkpoint_io.part import whole

WRITER = """
import sys
from pathlib import Path
from drivetrain.checkpoint_io.part import whole

with whole(Path(sys.argv[1])) as file:
    file.write(b"half")
    file.flush()
    print("writing", flush=True)
    sys.stdin.readline()
"""


def write(path: Path, data: bytes = b"all") -> None:
    with whole(path) as file:
        file.write(data)


def names(folder: Path) -> list[str]:
    return sorted(one.name for one in folder.iterdir())


def strays(folder: Path) -> list[str]:
    return [name for name in names(folder) if name.endswith(".tmp")]


def begun(path: Path) -> subprocess.Popen[str]:
    """Return another process that is in the middle of writing the file."""
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "writing\n"
    return process


def test_a_file_is_there_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "new" / "a.ckpt"
    write(path)
    with pytest.raises(TypeError), whole(path) as file:
        file.write("a text")
    assert path.read_bytes() == b"all"
    assert names(path.parent) == ["a.ckpt"]


@pytest.mark.skipif(not part._boot(), reason="this system tells no start, or has no locks")
def test_what_a_killed_writer_left_goes_with_the_next_file_and_a_live_ones_stays(tmp_path: Path) -> None:
    killed, alive = begun(tmp_path / "a.ckpt"), begun(tmp_path / "b.ckpt")
    with killed, alive:
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        assert len(strays(tmp_path)) == 2
        write(tmp_path / "c.ckpt")
        (left,) = strays(tmp_path)
        assert left.startswith(".b.ckpt.")
        alive.communicate("\n")
    assert alive.returncode == 0
    assert names(tmp_path) == ["b.ckpt", "c.ckpt"]
    assert (tmp_path / "b.ckpt").read_bytes() == b"half"


def test_what_another_machine_or_somebody_else_may_be_writing_stays(tmp_path: Path) -> None:
    others = [".a.ckpt.0123abcd.tmp", ".a.ckpt.0123abcd-0123456789ab.tmp", "a.ckpt.tmp", ".notes.tmp"]
    for name in others:
        (tmp_path / name).write_bytes(b"half")
    write(tmp_path / "a.ckpt")
    assert names(tmp_path) == sorted([*others, "a.ckpt"])


def test_a_folder_that_cannot_be_read_is_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(folder: Path) -> None:
        raise PermissionError(13, "Permission denied", str(folder))

    with monkeypatch.context() as patch:
        patch.setattr(Path, "iterdir", refuses)
        write(tmp_path / "a.ckpt")
    assert names(tmp_path) == ["a.ckpt"]


def test_without_locks_nothing_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stray = tmp_path / f".a.ckpt.0123abcd-{part._boot()}.tmp"
    stray.write_bytes(b"half")
    seen: list[str] = []
    for name, value in (("_is_mine", lambda file: False), ("_HAS_LOCKS", False)):
        with monkeypatch.context() as patch:
            patch.setattr(part, name, value)
            with whole(tmp_path / "a.ckpt") as file:
                file.write(b"all")
                seen += [one for one in strays(tmp_path) if one != stray.name]
    assert stray.exists()
    assert (tmp_path / "a.ckpt").read_bytes() == b"all"
    assert len(seen) == 2
    assert not any("-" in name for name in seen)  # who has locks leaves these alone


@pytest.mark.skipif(not part._boot(), reason="this system tells no start, or has no locks")
def test_a_file_that_was_taken_for_a_left_one_is_opened_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, taken = part._is_mine, []

    def late(file):
        if not taken:
            taken.append(file.name)
            Path(file.name).unlink()
        return real(file)

    monkeypatch.setattr(part, "_is_mine", late)
    write(tmp_path / "a.ckpt")
    assert names(tmp_path) == ["a.ckpt"]
