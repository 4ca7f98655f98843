from __future__ import annotations

import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import pytest

import drivetrain as dt
from drivetrain.loggers.folder import Folder, Place
from tests.loggers.told import names


def folder_of(kind: str, tmp_path: Path) -> Folder:
    return Folder(str(tmp_path) if kind == "disk" else f"memory://{uuid.uuid4().hex}")


@pytest.mark.parametrize("kind", ["disk", "memory"])
def test_files_and_folders_are_the_same_everywhere(tmp_path: Path, kind: str) -> None:
    root = folder_of(kind, tmp_path)
    child = root.child("a").child("b")
    assert (child.names(), child.read("x")) == ([], None)
    child.write("x", b"one")
    child.write("x", b"two")
    child.make()
    assert child.read("x") == b"two"
    assert (root.names(), child.names()) == (["a"], ["x"])
    assert root.child("") is root


@pytest.mark.parametrize("kind", ["disk", "memory"])
def test_the_next_version_follows_all_that_are_there(tmp_path: Path, kind: str) -> None:
    root = folder_of(kind, tmp_path).child("n")
    assert root.next_version() == 0
    for name in ("version_1", "version_7", "version_x", "other"):
        root.child(name).write("x", b"")
    assert [root.next_version() for _ in range(3)] == [8, 9, 10]


CLAIM = """
import sys
from drivetrain.loggers.folder import Folder
print(*(Folder(sys.argv[1]).next_version() for _ in range(50)))
"""


def test_processes_that_start_at_once_take_different_versions(tmp_path: Path) -> None:
    command = [sys.executable, "-c", CLAIM, str(tmp_path)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    taken = [int(number) for one in running for number in one.communicate()[0].split()]
    assert sorted(taken) == list(range(150))


def test_a_write_that_fails_leaves_the_old_file_and_no_other(tmp_path: Path) -> None:
    folder = Folder(str(tmp_path))
    folder.write("x", b"old")
    with pytest.raises(TypeError):
        folder.write("x", "text")
    assert (names(tmp_path), folder.read("x")) == (["x"], b"old")


def test_the_rest_of_a_file_is_replaced(tmp_path: Path) -> None:
    folder = Folder(str(tmp_path))
    folder.write("x", b"0123456789")
    folder.write_at("x", 4, b"ab")
    assert folder.read("x") == b"0123ab"


@pytest.mark.parametrize(
    ("name", "version", "path"),
    [("n", "mine", "n/mine"), ("n", 4, "n/version_4"), (None, "mine", "mine"), ("", "", ""), ("n", "", "n")],
)
def test_names_and_versions_make_the_folder(tmp_path: Path, name: Any, version: Any, path: str) -> None:
    place = Place("CSVLogger", tmp_path, name, version)
    assert Path(place.folder.path) == tmp_path / path
    assert place.is_named


def test_a_number_is_taken_when_somebody_asks(tmp_path: Path) -> None:
    first, second = (Place("CSVLogger", tmp_path, "n", None) for _ in range(2))
    assert names(tmp_path) == []
    assert (second.version, first.version, second.version) == (0, 1, 0)
    assert not first.is_named


@pytest.mark.parametrize("version", [1.5, -1, True])
def test_other_versions_are_refused(tmp_path: Path, version: Any) -> None:
    with pytest.raises(dt.LoggerError, match=r"logger.bad-argument"):
        Place("CSVLogger", tmp_path, "n", version)
