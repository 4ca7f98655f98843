"""AsyncCheckpointIO: training goes on while a checkpoint is written."""

from __future__ import annotations

import threading
from typing import Any, final

import torch

from drivetrain.checkpoint_io.checkpoint_io import CheckpointIO, StrPath
from drivetrain.checkpoint_io.plain import as_plain
from drivetrain.checkpoint_io.wrapping import WrappingCheckpointIO
from drivetrain.resolver.facts import CheckpointIOFacts
from drivetrain.resolver.known.storage import local as known

_FACTS = next(
    facts for facts in known.FACTS if isinstance(facts, CheckpointIOFacts) and facts.name == "async"
)


@final
class AsyncCheckpointIO(WrappingCheckpointIO):
    """Copies the checkpoint to the CPU's memory, then writes the copy in a thread, by another storage.

    What is written is the state of the moment of `save`, whatever training does meanwhile. The next save
    waits for the one before, so one copy is there at a time. A write that failed is raised by the next save,
    by `load`, or at the end of the run, whichever comes first. A file is removed after what is being
    written, and stays if that fails: at every moment there is a whole one.
    """

    def __init__(self, checkpoint_io: CheckpointIO | None = None) -> None:
        super().__init__(checkpoint_io)
        self._begin()

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._is_writing = False
        self._doomed: list[StrPath] = []
        self._failure: BaseException | None = None

    @property
    def facts(self) -> CheckpointIOFacts:
        """Return the facts of ``async``."""
        return _FACTS

    @property
    def is_deferred(self) -> bool:
        """Return True."""
        return True

    def save(self, checkpoint: dict[str, Any], path: StrPath) -> None:
        """Wait for the write before, copy, and begin to write.

        Raises:
            CheckpointError: the write before failed; or [checkpoint.not-plain], at once.
        """
        self.wait()
        taken = as_plain(checkpoint, path, _Copier().copy, is_copy=True)
        self._is_writing = True
        # Not a daemon: a process that comes to its end still writes it whole.
        self._thread = threading.Thread(target=self._write, args=(taken, path), name="drivetrain-checkpoint")
        try:
            self._thread.start()
        except RuntimeError:  # no more threads: as without this class
            self._thread, self._is_writing = None, False
            self.checkpoint_io.save(taken, path)

    def _write(self, taken: dict[str, Any], path: StrPath) -> None:
        try:
            self.checkpoint_io.save(taken, path)
            while True:
                with self._lock:
                    if not self._doomed:
                        self._is_writing = False
                        return
                    doomed = self._doomed.pop(0)
                self.checkpoint_io.remove(doomed)
        except BaseException as error:  # noqa: BLE001 - raised where somebody waits
            with self._lock:
                self._failure, self._is_writing = error, False
                self._doomed.clear()

    def load(self, path: StrPath, *, weights_only: bool = True) -> dict[str, Any]:
        """Read, after what is being written is there."""
        self.wait()
        return self.checkpoint_io.load(path, weights_only=weights_only)

    def remove(self, path: StrPath) -> None:
        """Remove, after what is being written is there, and not at all if it failed."""
        with self._lock:
            if self._is_writing:
                self._doomed.append(path)
            if self._is_writing or self._failure is not None:
                return
        self.checkpoint_io.remove(path)

    def wait(self) -> None:
        """Return when what was saved is there.

        Raises:
            CheckpointError: it could not be written; once, and whatever else the storage inside raises.
        """
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        with self._lock:
            failure, self._failure = self._failure, None
        if failure is not None:
            raise failure
        self.checkpoint_io.wait()

    def teardown(self) -> None:
        """Wait, and end the storage inside; it may be used again."""
        try:
            self.wait()
        finally:
            self.checkpoint_io.teardown()

    def __getstate__(self) -> dict[str, Any]:
        """Travel to another process, or into a copy, without what is being written here."""
        return {"checkpoint_io": self.checkpoint_io}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Begin with nothing to write."""
        self.checkpoint_io = state["checkpoint_io"]
        self._begin()


@final
class _Copier:
    """Copies tensors to the CPU, each once: two names of one tensor stay two names of one."""

    def __init__(self) -> None:
        self._copies: dict[Any, tuple[torch.Tensor, torch.Tensor]] = {}

    def copy(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return a copy that nothing else holds."""
        key = _place(tensor)
        if key not in self._copies:
            # The original is held too, so that no other takes its place in memory meanwhile.
            self._copies[key] = tensor, _copied(tensor)
        return self._copies[key][1]


def _place(tensor: torch.Tensor) -> object:
    """Return what two tensors that are one have in common."""
    if tensor.layout is not torch.strided or tensor.is_nested or not tensor.numel():
        return id(tensor)
    where = (tensor.device, tensor.data_ptr(), tensor.shape, tensor.stride())
    return where, tensor.dtype, type(tensor), tensor.requires_grad, tensor.is_conj(), tensor.is_neg()


def _copied(tensor: torch.Tensor) -> torch.Tensor:
    made = tensor.detach().to("cpu", copy=True)
    if isinstance(tensor, torch.nn.Parameter):
        return torch.nn.Parameter(made, requires_grad=tensor.requires_grad)
    return made.requires_grad_(tensor.requires_grad)
