"""Folder: a folder on a disk, or behind a protocol (``memory://``, ``s3://``) through fsspec."""

from __future__ import annotations

import os
import re
import uuid
from pathlib import Path
from typing import Any, final

from drivetrain.base.errors import LoggerError

_VERSION = re.compile(r"version_(\d+)")


@final
class Folder:
    """Where a run's files are. A file is written beside its place and renamed, or stored as a whole."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.is_remote = "://" in path

    def child(self, name: str) -> Folder:
        """Return a folder in it; itself for an empty name."""
        if not name:
            return self
        joined = f"{self.path.rstrip('/')}/{name}" if self.is_remote else str(Path(self.path, name))
        return Folder(joined)

    def names(self) -> list[str]:
        """Return what is in it; nothing where it is not there."""
        if not self.is_remote:
            return sorted(one.name for one in Path(self.path).iterdir()) if Path(self.path).is_dir() else []
        system, inner = self._system()
        if not system.exists(inner):
            return []
        return sorted(str(one).rstrip("/").rpartition("/")[2] for one in system.ls(inner, detail=False))

    def make(self) -> None:
        """Make it, if it is not there."""
        if self.is_remote:
            system, inner = self._system()
            system.makedirs(inner, exist_ok=True)
        else:
            Path(self.path).mkdir(parents=True, exist_ok=True)

    def next_version(self) -> int:
        """Make the first ``version_N`` that follows all that are there, and return N.

        On a disk two processes never get the same.
        """
        taken = [int(found[1]) for name in self.names() if (found := _VERSION.fullmatch(name))]
        version = max(taken, default=-1) + 1
        self.make()
        while not self.child(f"version_{version}")._is_new():  # noqa: SLF001 - another Folder
            version += 1
        return version

    def _is_new(self) -> bool:
        """Make it and return True, or return False where it is there."""
        try:
            if self.is_remote:
                system, inner = self._system()
                system.makedirs(inner, exist_ok=False)
            else:
                Path(self.path).mkdir()
        except FileExistsError:
            return False
        return True

    def read(self, name: str) -> bytes | None:
        """Return what a file holds, or None where there is none."""
        if not self.is_remote:
            path = Path(self.path, name)
            return path.read_bytes() if path.exists() else None
        system, inner = self._system()
        path_there = f"{inner.rstrip('/')}/{name}"
        return bytes(system.cat_file(path_there)) if system.exists(path_there) else None

    def write(self, name: str, data: bytes) -> None:
        """Write a file whole; who reads it meanwhile sees the old one or the new one."""
        self.make()
        if self.is_remote:
            system, inner = self._system()
            system.pipe_file(f"{inner.rstrip('/')}/{name}", data)
            return
        part = Path(self.path, f".{name}.{uuid.uuid4().hex[:8]}.tmp")
        try:
            part.write_bytes(data)
            part.replace(Path(self.path, name))
        except BaseException:
            part.unlink(missing_ok=True)
            raise

    def write_at(self, name: str, offset: int, data: bytes) -> None:
        """Replace all that a file on a disk holds from ``offset`` on."""
        with Path(self.path, name).open("r+b") as file:
            file.seek(offset)
            file.write(data)
            file.truncate()

    def _system(self) -> tuple[Any, str]:
        import fsspec

        found: tuple[Any, str] = fsspec.core.url_to_fs(self.path)
        return found


@final
class Place:
    """``save_dir/name/version`` of one logger: which folder is this run's.

    A version that the user does not name is a number that no run had before.
    """

    def __init__(
        self, logger: str, save_dir: str | os.PathLike[str], name: str | None, version: int | str | None
    ) -> None:
        if not (version is None or type(version) in (int, str)) or (type(version) is int and version < 0):
            raise LoggerError(
                "logger.bad-argument",
                f"{logger}(version={version!r})",
                values={"version": version},
                because="a version is an int of 0 or more, a text, or None for the next number",
                hint="leave it out for the next number",
            )
        self.name = name or ""
        self.save_dir = os.fspath(save_dir)
        self.root = Folder(self.save_dir).child(self.name)
        self.is_named = version is not None
        self._logger, self._version = logger, version

    @property
    def version(self) -> int | str:
        """The version; whoever asks first makes its folder, so that no other run takes the number."""
        if self._version is None:
            self._version = self.root.next_version()
        return self._version

    @property
    def folder(self) -> Folder:
        """This version's folder."""
        version = self.version
        return self.root.child(f"version_{version}" if isinstance(version, int) else version)

    def refuse(self, names: list[str]) -> LoggerError:
        """Return the error for a version that holds another run's files."""
        return LoggerError(
            "logger.version-exists",
            f"{self._logger}(version={self.version!r}): {self.folder.path} holds another run",
            values={"version": self.version, "folder": self.folder.path, "holds": names},
            because="a new fit never writes into what an earlier run logged",
            hint="leave version out for the next number, or resume that run: fit(..., ckpt_path=...)",
        )
