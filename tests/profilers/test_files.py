from __future__ import annotations

from pathlib import Path

import fsspec

from drivetrain.profilers.files import append, file_name, written_by


def test_names_are_made_of_what_there_is() -> None:
    assert file_name("fit", "report", 0, extension=".txt") == "fit-report-0.txt"
    assert file_name(None, "", None, "a/b c", extension=".prof") == "a_b_c.prof"


def test_texts_are_added_at_local_and_remote_paths(tmp_path) -> None:
    assert append(str(tmp_path / "new"), "a.txt", "1\n") == f"{tmp_path}/new/a.txt"
    append(f"{tmp_path}/new/", "a.txt", "2\n")
    assert (tmp_path / "new" / "a.txt").read_text() == "1\n2\n"
    append("memory://profilers", "a.txt", "3\n")
    assert fsspec.filesystem("memory").cat("/profilers/a.txt") == b"3\n"


def test_files_of_others_are_brought_there(tmp_path) -> None:
    def write(path: str) -> None:
        Path(path).write_bytes(b"x")

    written_by(write, str(tmp_path / "new"), "b.bin")
    assert (tmp_path / "new" / "b.bin").read_bytes() == b"x"
    assert written_by(write, "memory://profilers", "b.bin") == "memory://profilers/b.bin"
    assert fsspec.filesystem("memory").cat("/profilers/b.bin") == b"x"
