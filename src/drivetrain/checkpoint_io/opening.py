"""Open a checkpoint's file, wherever it is; say what is wrong where that cannot be done."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from drivetrain.base.errors import CheckpointError
from drivetrain.checkpoint_io.checkpoint_io import StrPath


def is_remote(path: StrPath) -> bool:
    """Whether a path has a protocol, and is fsspec's."""
    return "://" in os.fspath(path)


@contextmanager
def opened(path: StrPath) -> Iterator[IO[bytes]]:
    """Open a file to read; nothing waits for somebody who writes at the other end of a pipe.

    Raises:
        CheckpointError [checkpoint.missing]: there is no such file.
        CheckpointError [checkpoint.not-a-file]: it is a folder, a pipe, a device, or nothing at all.
        CheckpointError [checkpoint.read]: the storage refused, or the connection was cut.
    """
    name = os.fspath(path)
    try:
        if is_remote(name):
            with _opened_remote(name) as file:
                yield file
        else:
            with _opened_here(name) as file:
                yield file
    except FileNotFoundError as error:
        raise CheckpointError(
            "checkpoint.missing",
            f"there is no checkpoint {name}",
            values={"path": name, "folder": _listing(name)},
            hint="give the path of a file that a run has saved",
        ) from error
    except IsADirectoryError as error:
        raise _not_a_file(name, "a folder") from error
    except OSError as error:
        raise unreadable(name, error) from error


def unreadable(name: str, error: Exception) -> CheckpointError:
    """Return what to raise where a storage did not give what it has."""
    return CheckpointError(
        "checkpoint.read",
        f"cannot read {name}: {getattr(error, 'strerror', None) or error}",
        values={"path": name, "error": f"{type(error).__name__}: {error}"},
        because="the storage refused, or the connection to it was cut; the file itself may be whole",
        hint="see to the permissions, the package for this kind of storage, or the connection, and try again",
    )


def torn(name: str, reason: str) -> CheckpointError:
    """Return what to raise for a file that is not whole."""
    return CheckpointError(
        "checkpoint.torn",
        f"{name} is not a whole checkpoint",
        values={"path": name, "reason": reason},
        because="it was cut off, changed, or written by something else",
        hint="resume from another checkpoint; ours are renamed into place only when they are whole",
    )


def _opened_here(name: str) -> IO[bytes]:
    if not name:
        raise _not_a_file(name, "empty")
    _check_kind(name, Path(name).stat().st_mode)
    # It may have become another since: a pipe would let us wait for ever.
    number = os.open(name, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    try:
        _check_kind(name, os.fstat(number).st_mode)
        return os.fdopen(number, "rb")
    except BaseException:
        os.close(number)
        raise


def _check_kind(name: str, mode: int) -> None:
    if not stat.S_ISREG(mode):
        kinds = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
        raise _not_a_file(name, kinds.get(stat.S_IFMT(mode), "a device"))


@contextmanager
def _opened_remote(name: str) -> Iterator[IO[bytes]]:
    with asking(name):
        system, inner = store_of(name)
        system.invalidate_cache()  # what it remembers of the store may be older than another run's writing
        if system.isdir(inner):
            raise IsADirectoryError
        file: Any = system.open(inner, "rb")
    with file:
        yield file


def store_of(name: str, **options: bool) -> tuple[Any, str]:
    """Return fsspec's file system of a path with a protocol, and the path inside of it."""
    import fsspec

    system, inner = fsspec.core.url_to_fs(name, **options)
    return system, str(inner)


@contextmanager
def asking(name: str) -> Iterator[None]:
    """Ask a store; what it raises of its own classes is a CheckpointError, and an OSError stays one.

    Raises:
        CheckpointError [checkpoint.read]: no credentials, no connection, no such protocol, no such package.
    """
    try:
        yield
    except (OSError, CheckpointError):
        raise
    except Exception as error:
        raise unreadable(name, error) from error


def _not_a_file(name: str, what: str) -> CheckpointError:
    said = f"{name} is {what}" if name else "the path of the checkpoint is empty"
    return CheckpointError(
        "checkpoint.not-a-file",
        f"{said}, and not a file",
        values={"path": name, **({"folder": _listing(str(Path(name) / "x"))} if what == "a folder" else {})},
        because="a checkpoint is one file",
        hint="give the path of the .ckpt file itself",
    )


def _listing(name: str) -> str:
    if is_remote(name) or not Path(name).parent.is_dir():
        return "not there"
    names = sorted(found.name for found in Path(name).parent.glob("*.ckpt"))
    return f"holds {', '.join(names[:8]) or 'no .ckpt file'}" + (", ..." if len(names) > 8 else "")  # noqa: PLR2004 - some names
