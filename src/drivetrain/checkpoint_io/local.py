"""One .ckpt file, written whole or not at all."""

from __future__ import annotations

import contextlib
import os
import pickle
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import torch

from drivetrain.base.errors import CheckpointError
from drivetrain.base.loading import Later
from drivetrain.checkpoint_io.checkpoint_io import CheckpointIO, StrPath
from drivetrain.resolver.facts import CheckpointIOFacts
from drivetrain.resolver.known.storage import local as known

if TYPE_CHECKING:
    from drivetrain.checkpoint_io import foreign, opening, part, plain, scan
else:
    foreign = Later("drivetrain.checkpoint_io.foreign")
    opening = Later("drivetrain.checkpoint_io.opening")
    part = Later("drivetrain.checkpoint_io.part")
    plain = Later("drivetrain.checkpoint_io.plain")
    scan = Later("drivetrain.checkpoint_io.scan")

_FACTS = next(
    facts for facts in known.FACTS if isinstance(facts, CheckpointIOFacts) and facts.name == "local"
)


@final
class LocalCheckpointIO(CheckpointIO):
    """One file: written beside its place under another name, synced, then renamed over it.

    A process that is killed at any moment leaves the old file or the new one, and at worst a stray
    ``.<name>.<hex>.tmp``, which the next save into the folder removes. Paths with a protocol
    (``memory://``, ``s3://``) go through fsspec, by one of its transactions: a store shows the new object
    when it is whole.
    """

    @property
    def facts(self) -> CheckpointIOFacts:
        """Return the facts of ``local``."""
        return _FACTS

    def save(self, checkpoint: dict[str, Any], path: StrPath) -> None:
        """Write, sync, rename, sync the folder."""
        name, tensors = os.fspath(path), plain.as_plain(checkpoint, path)
        handled = sys.exc_info()[1]
        try:
            if opening.is_remote(path):
                _save_remote(tensors, name)
            else:
                _save_file(tensors, Path(path))
        except Exception as error:
            system = _of_system(error, handled)
            why = None if system else plain.unwritable(tensors, name)
            raise why or _refused(name, "write", system or error) from error

    def load(self, path: StrPath, *, weights_only: bool = True) -> dict[str, Any]:
        """Read the file; by default after a look through it, and with torch's restricted unpickler."""
        name = os.fspath(path)
        with opening.opened(path) as file:
            try:
                asked = scan.scan(file, foreign.FOREIGN) if weights_only else set()
                file.seek(0)
                with torch.serialization.safe_globals([(foreign.FOREIGN[one], one) for one in sorted(asked)]):
                    found = torch.load(file, map_location="cpu", weights_only=weights_only)
            except scan.Unsafe as error:
                raise _unsafe(name, str(error)) from error
            except scan.Torn as error:
                raise opening.torn(name, str(error)) from error
            except OSError:
                raise
            except Exception as error:
                is_stores = opening.is_remote(path) and not isinstance(
                    error, (RuntimeError, ValueError, MemoryError)
                )
                raise _said_by_torch(name, error, is_stores=is_stores) from error
        if not isinstance(found, dict):
            raise opening.torn(name, f"it holds a {type(found).__name__}, not a dict")
        return found

    def remove(self, path: StrPath) -> None:
        """Remove the file if it is there."""
        name = os.fspath(path)
        try:
            if opening.is_remote(path):
                with contextlib.suppress(FileNotFoundError):
                    system, inner = opening.store_of(name)
                    system.rm(inner)
            else:
                Path(path).unlink(missing_ok=True)
        except Exception as error:
            raise _refused(name, "remove", error) from error


def _save_file(checkpoint: dict[str, Any], path: Path) -> None:
    with part.whole(path) as file:
        torch.save(checkpoint, file)


def _save_remote(checkpoint: dict[str, Any], name: str) -> None:
    """Write to a store; what was there stays until all of the new one has arrived.

    A file that is closed is there, even if its writing stopped in the middle: within a transaction it is
    there at the transaction's end, or not at all. The file system is one of our own, since what anybody else
    writes by it meanwhile would be part of the transaction.
    """
    system, inner = opening.store_of(name, skip_instance_cache=True)
    with system.transaction:
        file = system.open(inner, "wb")
        try:
            torch.save(checkpoint, file)
        finally:
            size = file.tell()
            file.close()
    system.invalidate_cache()
    arrived = system.info(inner)["size"]
    if arrived != size:
        message = f"{arrived} of {size} bytes have arrived"
        raise OSError(message)


def _of_system(error: BaseException | None, handled: BaseException | None) -> OSError | None:
    """Return what the system said; torch's writer puts an error of its own, about its positions, over it.

    What the caller was handling when it began to save has nothing to do with it.
    """
    while error is not None and error is not handled and not isinstance(error, OSError):
        error = error.__context__
    return error if isinstance(error, OSError) and error is not handled else None


def _refused(name: str, verb: str, error: Exception) -> CheckpointError:
    return CheckpointError(
        "checkpoint.write",
        f"cannot {verb} {name}: {getattr(error, 'strerror', None) or error}",
        values={"path": name, "error": f"{type(error).__name__}: {error}"},
        because="the storage refused",
        hint="give a folder that this process may write, with room for the file"
        if not opening.is_remote(name)
        else "see to the credentials, the connection, and the package for this kind of storage",
    )


def _said_by_torch(name: str, error: Exception, *, is_stores: bool) -> CheckpointError:
    if isinstance(error, pickle.UnpicklingError):
        asks = [line.strip() for line in str(error).splitlines() if "GLOBAL" in line or "unsupported" in line]
        return _unsafe(name, asks[0]) if asks else opening.torn(name, str(error).splitlines()[0])
    if is_stores:  # a store has classes of its own for a connection that is cut
        return opening.unreadable(name, error)
    return opening.torn(name, f"{type(error).__name__}: {error}")


def _unsafe(name: str, asks: str) -> CheckpointError:
    return CheckpointError(
        "checkpoint.unsafe",
        f"{name} holds more than tensors and plain containers; nothing in it was run",
        values={"path": name, "asks for": asks},
        because="a pickle can run any code, so only tensors and plain containers are read",
        hint="if you trust whoever wrote the file, pass weights_only=False",
    )
