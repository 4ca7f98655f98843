"""Every error and warning that the library raises on purpose, and how each is rendered.

::

    Exception
    +-- DrivetrainError          catch this to catch everything raised on purpose
        +-- PlanError            the flags describe no run (also a ValueError)
        +-- BuildError           the plan is right, but a part of it cannot be built here
        +-- LaunchError          worker processes could not be started, or did not meet
        +-- RankFailure          another rank failed; holds its rank, place and traceback
        +-- CollectiveError      ranks disagree about what they communicate
        +-- CheckpointError      a checkpoint cannot be written, read or trusted
        +-- DataError            a loader or sampler cannot be used as asked
        +-- ModuleError          a module, data module or callback breaks its contract
        +-- SpikeError           the loss jumped; holds the batch
        +-- EngineError          an Engine method was called with what it cannot do
        +-- LoggerError          a logger cannot write what, or where, it was told to
        +-- ProfilerError        a profiler was called with what it cannot do
        +-- TrainerError         a Trainer method was called with what it cannot do
        +-- CompatError          code written for another library cannot run here (also an ImportError)
    UserWarning
    +-- DrivetrainWarning        has an action, a code and a switch (warnings.filterwarnings)
        +-- DrivetrainDeprecationWarning   prints the new call (also a FutureWarning)
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from drivetrain.base.origin import UNSET, Sourced
from drivetrain.base.text import Code, show

Fix = Mapping[str, object]
"""A change of flags that resolves; UNSET as the value means: leave this flag out."""


@dataclass(frozen=True)
class Conflict:
    """One broken rule, as data; text is made only in `render`."""

    code: str
    message: str
    flags: Mapping[str, Sourced[object]] = field(default_factory=dict)
    because: str = ""
    fixes: tuple[Fix, ...] = ()

    def __str__(self) -> str:
        """Render the conflict the way an error prints it."""
        return render(self.code, self.message, self.flags, self.because, tuple(map(_hint, self.fixes)))


@dataclass(frozen=True)
class Notice:
    """Something that the user should change although it works: shown as a warning."""

    code: str
    message: str

    def __str__(self) -> str:
        """Render the notice the way a warning prints it."""
        return f"[{self.code}] {self.message}\ndocs: errors/{self.code}"


def render(
    code: str,
    message: str,
    values: Mapping[str, object],
    because: str,
    hints: tuple[str, ...],
) -> str:
    """Lay out an error: first line for the log, the values, the rule, what to do, where to read on."""
    wide = max(map(len, values), default=0)
    lines = [f"[{code}] {message}"]
    lines += [
        f"  {name:<{wide}} = {value if isinstance(value, Sourced) else show(value)}"
        for name, value in values.items()
    ]
    lines += [f"  because {because}"] if because else []
    lines += [f"hint: {hint}" for hint in hints]
    lines.append(f"docs: errors/{code}")
    return "\n".join(lines)


def _hint(fix: Fix) -> str:
    given = {name: value for name, value in fix.items() if value is not UNSET}
    dropped = [name for name, value in fix.items() if value is UNSET]
    said = ["pass " + ", ".join(f"{name}={show(value)}" for name, value in given.items())] if given else []
    return " and ".join(said + [f"leave out {name}" for name in dropped])


_KINDS: list[Callable[[type[DrivetrainError], str], type[DrivetrainError]]] = []


def also_raise_as(find: Callable[[type[DrivetrainError], str], type[DrivetrainError]]) -> None:
    """Let every error be of the kind that ``find`` returns for its class and code: a subclass of the class.

    So whoever mirrors another library's names can have errors caught by its names too.
    """
    _KINDS.append(find)


class DrivetrainError(Exception):
    """Base of every error that the library raises on purpose.

    Its text is rendered from data: ``code`` (the page in docs/errors), ``message`` (enough on
    its own in a log), ``values`` (what was received), ``because`` (the rule), ``hint`` (the way out).
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        values: Mapping[str, object] | None = None,
        because: str = "",
        hint: str = "",
    ) -> None:
        self.code = code
        self.message = message
        self.values = dict(values or {})
        self.because = because
        self.hint = hint
        super().__init__(render(code, message, self.values, because, (hint,) if hint else ()))
        for find in _KINDS:
            self.__class__ = find(type(self), code)

    def __reduce__(self) -> tuple[Any, ...]:
        """Cross a process boundary with the data, not only with the text."""
        kind = next(one for one in type(self).__mro__ if not hasattr(one, "also_of"))
        return _rebuild, (kind, self.code, self.message, self.values, self.because, self.hint)


def _rebuild(
    kind: type[DrivetrainError],
    code: str,
    message: str,
    values: Mapping[str, object],
    because: str,
    hint: str,
) -> DrivetrainError:
    return kind(code, message, values=values, because=because, hint=hint)


class PlanError(DrivetrainError, ValueError):
    """The flags describe no run; holds every conflict that was found, not only the first."""

    def __init__(self, conflicts: tuple[Conflict, ...]) -> None:
        self.conflicts = conflicts
        first = conflicts[0]
        super().__init__(first.code, first.message, values=first.flags, because=first.because)
        self.args = ("\n\n".join(map(str, conflicts)),)

    def __reduce__(self) -> tuple[Any, ...]:
        """Cross a process boundary with every conflict; a value that cannot travel goes as its text."""
        return PlanError, (tuple(map(_travelling, self.conflicts)),)


def _travelling(conflict: Conflict) -> Conflict:
    flags = {
        name: source if _pickles(source) else replace(source, value=Code(show(source.value)))
        for name, source in conflict.flags.items()
    }
    fixes = tuple(
        {name: value if _pickles(value) else Code(show(value)) for name, value in fix.items()}
        for fix in conflict.fixes
    )
    return replace(conflict, flags=flags, fixes=fixes)


def _pickles(value: object) -> bool:
    try:
        pickle.dumps(value)
    except Exception:  # noqa: BLE001 - a foreign object's own code
        return False
    return True


class BuildError(DrivetrainError):
    """The plan is right, but a part of it cannot be built on this machine or in this release."""


class LaunchError(DrivetrainError):
    """Worker processes could not be started, or did not meet within the timeout."""


class CollectiveError(DrivetrainError):
    """The ranks disagree about what they communicate."""


class CheckpointError(DrivetrainError):
    """A checkpoint cannot be written, read or trusted."""


class DataError(DrivetrainError):
    """A loader or sampler cannot be used as asked."""


class ModuleError(DrivetrainError):
    """A module, data module or callback breaks its contract."""


class SpikeError(DrivetrainError):
    """The loss of a step jumped, and the run that was told to look for that stopped."""

    @property
    def batch_idx(self) -> int:
        """The batch of its epoch at which it was seen; -1 where nobody said."""
        return int(str(self.values.get("batch_idx", -1)))


class EngineError(DrivetrainError):
    """An Engine method was called with something that it cannot do."""


class LoggerError(DrivetrainError):
    """A logger cannot write what, or where, it was told to."""


class ProfilerError(DrivetrainError):
    """A profiler was made, or called, with something that it cannot do."""


class TrainerError(DrivetrainError):
    """A Trainer method was called with something that it cannot do."""


class CompatError(DrivetrainError, ImportError):
    """Code that was written for another library asks for what is not here."""


class RankFailure(DrivetrainError):  # noqa: N818 - it tells of a failure elsewhere
    """Another rank failed; carries which rank, where it was, and its traceback.

    ``rank``, ``where`` and ``remote_traceback`` are data; ``__cause__`` is the exception itself
    where it could cross the process boundary.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        remote_traceback: str = "",
        also: str = "",
        **parts: Any,  # noqa: ANN401 - passed on unchanged
    ) -> None:
        super().__init__(code, message, **parts)
        self.rank = int(str(self.values.get("rank", -1)))
        self.where = str(self.values.get("where", ""))
        self.remote_traceback = remote_traceback
        self.also = also
        """One line on the ranks that failed after this one."""
        text = "\n".join(filter(None, (str(self), also)))
        if remote_traceback:
            text += f"\n\ntraceback of rank {self.rank}:\n{remote_traceback.rstrip()}"
        self.args = (text,)

    def __reduce__(self) -> tuple[Any, ...]:
        """Cross a process boundary with the traceback."""
        parts = {"values": self.values, "because": self.because, "hint": self.hint}
        parts |= {"remote_traceback": self.remote_traceback, "also": self.also}
        return _rebuild_failure, (self.code, self.message, parts)


def _rebuild_failure(code: str, message: str, parts: Mapping[str, Any]) -> RankFailure:
    return RankFailure(code, message, **parts)


class DrivetrainWarning(UserWarning):
    """A warning with an action, a code (in square brackets) and a switch (its class or code)."""


class DrivetrainDeprecationWarning(DrivetrainWarning, FutureWarning):
    """An old spelling was translated; prints the new call. FutureWarning, so that users see it."""
