"""The names and values of the Trainer's arguments."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drivetrain.base.errors import TrainerError
from drivetrain.base.loading import Later, load
from drivetrain.base.text import listed, nearest, show
from drivetrain.callbacks.callback import Callback, Checkpoint, best_path, newest_path
from drivetrain.events import is_unused
from drivetrain.loops.settings import Accumulation, Settings
from drivetrain.machine import probe
from drivetrain.modules import DataModule, Module
from drivetrain.modules.run import Logs
from drivetrain.profilers.pass_through import PassThroughProfiler
from drivetrain.profilers.profiler import Profiler

if TYPE_CHECKING:
    from drivetrain.callbacks import checkpoint, gradient_accumulation, model_summary, progress_bar
    from drivetrain.checkpoint_io import newest
    from drivetrain.resolver import legacy
else:
    checkpoint = Later("drivetrain.callbacks.checkpoint")
    model_summary = Later("drivetrain.callbacks.model_summary")
    progress_bar = Later("drivetrain.callbacks.progress_bar")
    gradient_accumulation = Later("drivetrain.callbacks.gradient_accumulation")
    legacy = Later("drivetrain.resolver.legacy")
    newest = Later("drivetrain.checkpoint_io.newest")

LATER = (
    "model_registry",
    "suggest_integrations",
)
"""Arguments that users of such Trainers know and that this release does not have."""


def check_names(unknown: Mapping[str, object], known: Iterable[str]) -> None:
    """Refuse an argument that is neither ours nor an old spelling.

    Raises:
        TrainerError [trainer.later-argument]: a known argument that this release does not have.
        TrainerError [trainer.unknown-argument]: there is no such argument.
    """
    for name, value in unknown.items():
        if name in LATER:
            raise later(name, value)
        if name not in legacy.LEGACY:
            names = [*known]
            close = nearest(name, [*names, *legacy.LEGACY])
            raise TrainerError(
                "trainer.unknown-argument",
                f"Trainer has no argument {name!r}" + (f", did you mean {close!r}?" if close else ""),
                values={name: value},
                because=f"its arguments are {listed(names)}",
                hint=f"write {close}=..." if close else "leave it out",
            )


def later(name: str, value: object) -> TrainerError:
    """Return the error for what this release does not have."""
    return TrainerError(
        "trainer.later-argument",
        f"Trainer({name}={value!r}): this release does not have it yet",
        values={name: value},
        because="an argument that would do nothing is refused",
        hint=f"leave {name} out",
    )


def translated(
    old: Mapping[str, object], given: Mapping[str, object], defaults: Mapping[str, object]
) -> dict[str, Any]:
    """Return old spellings' meanings as arguments of today.

    Raises:
        TrainerError [trainer.argument-twice]: the argument itself says something else.
        TrainerError [trainer.later-argument]: this release does not have the argument.
    """
    for name, value in old.items():
        if name not in given:
            raise later(name, value)
        if given[name] not in (defaults[name], value):
            raise TrainerError(
                "trainer.argument-twice",
                f"{name}={given[name]!r}, and an old spelling that means {name}={value!r}",
                values={name: given[name]},
                because="one thing is said once",
                hint=f"leave the old spelling out and write {name}=...",
            )
    return dict(old)


def read_callbacks(given: Mapping[str, Any]) -> list[Callback]:
    """Return the callbacks as a list, with summary, progress and checkpoints where they are wanted.

    Raises:
        TrainerError [trainer.bad-argument]: not callbacks; or one of these that is switched off.
    """
    found = given["callbacks"]
    callbacks = [] if found is None else [found] if isinstance(found, Callback) else found
    if not isinstance(callbacks, (list, tuple)) or not all(isinstance(one, Callback) for one in callbacks):
        raise _bad("callbacks", found, "a Callback or a list of them", "callbacks=[MyCallback()]")
    callbacks = list(callbacks)
    has_checkpoint = any(isinstance(one, checkpoint.ModelCheckpoint) for one in callbacks)
    wanted = given["enable_checkpointing"]
    if wanted is False and has_checkpoint:
        raise _bad(
            "enable_checkpointing", wanted, "not False with a ModelCheckpoint in callbacks", "one of the two"
        )
    if wanted and not has_checkpoint:
        callbacks.append(checkpoint.ModelCheckpoint())
    has_summary = any(isinstance(one, model_summary.ModelSummary) for one in callbacks)
    wanted = given["enable_model_summary"]
    if wanted not in (True, False, None) or (wanted is False and has_summary):
        because = "True or False, and not False with a ModelSummary in callbacks"
        raise _bad("enable_model_summary", wanted, because, "one of the two")
    if wanted is not False and not has_summary:
        callbacks.append(model_summary.ModelSummary())
    if given["max_time"] is not None:
        callbacks.append(_of("callbacks.timer").Timer(given["max_time"]))
    if given["enable_progress_bar"] and not any(
        isinstance(one, progress_bar.ProgressBar) for one in callbacks
    ):
        callbacks.append(_bar())
    return callbacks


def _bar() -> progress_bar.ProgressBar:
    bar: progress_bar.ProgressBar
    if probe.is_terminal():
        bar = _of("callbacks.rich_progress_bar").RichProgressBar(leave=True)
    else:
        bar = _of("callbacks.line_progress").LineProgress()
    return bar


def _of(module: str) -> Any:
    """Load what not every run needs, when one does."""
    return load(f"drivetrain.{module}")


def read_loggers(given: Mapping[str, Any]) -> list[Logs]:
    """Return the loggers as a list; in a fast run, what stands in for them.

    Raises:
        TrainerError [trainer.bad-argument]: something that is no logger.
    """
    wanted = given["logger"]
    if wanted is None or wanted is False:
        return []
    if wanted is True:
        found: list[Any] = [_of("loggers.csv").CSVLogger(given["default_root_dir"] or ".")]
    else:
        found = list(wanted) if isinstance(wanted, (list, tuple)) else [wanted]
    if not all(callable(getattr(one, "log_metrics", None)) for one in found):
        raise _bad("logger", wanted, "True, False, a Logger or a list of them", "logger=True")
    return [_of("loggers.logger").DummyLogger() for _ in found] if given["fast_dev_run"] else found


_PROFILERS = {"simple": "SimpleProfiler", "advanced": "AdvancedProfiler", "pytorch": "PyTorchProfiler"}
"""By name, the class; the name is its module's too."""


def read_profiler(given: Mapping[str, Any]) -> Profiler:
    """Return the profiler: one that measures nothing where none is wanted.

    Raises:
        TrainerError [trainer.bad-argument]: neither a name of one, nor one.
    """
    wanted = given["profiler"]
    if wanted is None:
        return PassThroughProfiler()
    if isinstance(wanted, Profiler):
        return wanted
    name = wanted.lower() if isinstance(wanted, str) else None
    if name not in _PROFILERS:
        close = nearest(wanted, _PROFILERS) if isinstance(wanted, str) else None
        because = f"None, a Profiler object, or one of {listed(map(repr, _PROFILERS))}"
        raise _bad("profiler", wanted, because, f"profiler={close or 'simple'!r}")
    profiler: Profiler = getattr(_of(f"profilers.{name}"), _PROFILERS[name])()
    return profiler


_AROUND = {
    "callbacks": None,
    "logger": None,
    "enable_checkpointing": None,
    "enable_model_summary": None,
    "profiler": None,
    "fast_dev_run": False,
    "detect_anomaly": False,
    "overfit_batches": 0,
}
"""What a run without anything around the steps cannot have, and what each is when nothing is said."""


def bare(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a run without anything around its steps.

    Raises:
        TrainerError [trainer.bad-argument]: something that is around them was asked for.
    """
    for name, default in _AROUND.items():
        if given[name] not in (default, False, None):
            raise _bad(name, given[name], "left out where barebones=True", "barebones=False")
    return {
        "logger": False,
        "enable_checkpointing": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
        "num_sanity_val_steps": 0,
    }


def with_own(callbacks: list[Callback], module: Module) -> list[Callback]:
    """Return the callbacks with those of ``configure_callbacks``, which replace others of their class.

    Raises:
        TrainerError [trainer.bad-argument]: it returned something else.
    """
    if is_unused(module.configure_callbacks):
        return callbacks
    found = module.configure_callbacks()
    own = [found] if isinstance(found, Callback) else list(found or [])
    if not all(isinstance(one, Callback) for one in own):
        raise _bad("configure_callbacks", found, "a method that returns a Callback or a list", "callbacks")
    kinds = {type(one) for one in own}
    return [one for one in callbacks if type(one) not in kinds] + own


def with_schedule(settings: Settings, callbacks: Iterable[Callback]) -> Settings:
    """Return the settings with what a GradientAccumulationScheduler among the callbacks says.

    Raises:
        TrainerError [trainer.argument-twice]: ``accumulate_grad_batches``, or another one, says it too.
    """
    found = [one for one in callbacks if isinstance(one, gradient_accumulation.GradientAccumulationScheduler)]
    if not found:
        return settings
    said = dict(settings.accumulation.by_epoch)
    if len(found) > 1 or said != {0: 1}:
        raise TrainerError(
            "trainer.argument-twice",
            "accumulation by a GradientAccumulationScheduler, and said a second time",
            values={"accumulate_grad_batches": said, "scheduling": [one.scheduling for one in found]},
            because="one thing is said once",
            hint="leave one of them out",
        )
    return replace(
        settings, accumulation=Accumulation(found[0].scheduling, settings.accumulation.spans_epochs)
    )


def _bad(name: str, value: object, because: str, hint: str) -> TrainerError:
    return TrainerError(
        "trainer.bad-argument",
        f"{name} cannot be {value!r}",
        values={name: value},
        because=f"{name} is {because}",
        hint=f"pass {hint}",
    )


def check_model(model: object) -> Module:
    """Return the model.

    Raises:
        TrainerError [trainer.not-a-module]: it is something else.
    """
    if isinstance(model, Module):
        return model
    raise TrainerError(
        "trainer.not-a-module",
        f"the model is a {type(model).__name__}, not a drivetrain.Module",
        values={"model": type(model).__qualname__},
        because="a Module says what a training step is",
        hint="subclass drivetrain.Module and hold the network in it",
    )


def check_choice(name: str, value: object, *, default: bool) -> bool:
    """Return a switch of a verb; None is its default.

    Raises:
        TrainerError [trainer.bad-argument]: it is something else.
    """
    if value is not None and not isinstance(value, bool):
        raise _bad(name, value, f"True, False, or None for {default}", f"{name}={default}")
    return default if value is None else value


def check_data(datamodule: object, *passed: object) -> None:
    """Refuse data that is given twice, or a data module that is none.

    Raises:
        TrainerError [trainer.data-twice]: loaders and a data module.
        TrainerError [trainer.not-a-datamodule]: it is something else.
    """
    given = [one for one in passed if one is not None]
    if any(isinstance(one, DataModule) for one in given) or (
        datamodule is not None and not isinstance(datamodule, DataModule)
    ):
        raise TrainerError(
            "trainer.not-a-datamodule",
            "a data module in a loader's place, or something else in a data module's",
            values={"datamodule": datamodule, "loaders": given},
            because="a DataModule is passed as datamodule=, loaders as loaders",
            hint="pass datamodule=MyDataModule()",
        )
    if datamodule is not None and given:
        raise TrainerError(
            "trainer.data-twice",
            "loaders and a datamodule are both passed",
            values={"datamodule": type(datamodule).__name__, "loaders": given},
            because="data comes from one place",
            hint="leave one of them out",
        )


def as_path(
    path: str | os.PathLike[str] | None, callbacks: list[Callback], stage: str, settings: Settings
) -> str | None:
    """Return a checkpoint's path as text: ``best`` is of this trainer, ``last`` of an earlier process too.

    None for a fit that begins anew, as no process has saved anything yet.

    Raises:
        TrainerError [trainer.no-best]: ``best``, and no ModelCheckpoint with a monitor has saved.
        TrainerError [trainer.no-last]: ``last``, and nothing was saved that another verb could load.
        TrainerError [trainer.bad-argument]: it is no path.
    """
    if path is None:
        return None
    if path == "best":
        best = best_path(callbacks)
        if best is None:
            raise TrainerError(
                "trainer.no-best",
                "ckpt_path='best', and no checkpoint is the best",
                values={"callbacks": [type(one).__name__ for one in callbacks]},
                because="the best is what a ModelCheckpoint of this trainer with a monitor has saved",
                hint="pass callbacks=[dt.ModelCheckpoint(monitor='val_loss')], or a path",
            )
        return best
    if path == "last":
        saving = (one for one in callbacks if isinstance(one, Checkpoint))
        folders = [
            one
            for one in (each.earlier_folder(settings.default_root_dir) for each in saving)
            if one is not None
        ]
        signalled = [] if settings.signal_path is None else [settings.signal_path]
        last = newest_path(callbacks) or newest.newest_of(folders, signalled)
        if last is None and Path(path).exists():
            return path
        if last is None and stage != "fit":
            raise TrainerError(
                "trainer.no-last",
                "ckpt_path='last', and there is no last checkpoint",
                values={"callbacks": [type(one).__name__ for one in callbacks], "folders": folders},
                because="the last is the newest file that this trainer has saved, or else the newest in the "
                "folders of its ModelCheckpoints",
                hint="pass the path of a file",
            )
        return last
    if not isinstance(path, (str, os.PathLike)):
        raise TrainerError(
            "trainer.bad-argument",
            f"ckpt_path={show(path)}",
            values={"ckpt_path": path},
            because="a checkpoint is named by its path, or by 'best' or 'last'",
            hint="pass the path of a file that a run has saved",
        )
    return os.fspath(path)
