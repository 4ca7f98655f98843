"""Old spellings: what each means today, or why it is refused and what to write instead.

A row says how one old Trainer argument is read. The release that deprecated it and the one that
removes it stand on the row; from the latter on the translation is an error with the same text.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

from drivetrain.base.loading import Later
from drivetrain.base.text import show
from drivetrain.flags.devices import MOST, parse_devices
from drivetrain.flags.problem import Problem
from drivetrain.flags.scalars import parse_count, parse_switch

if TYPE_CHECKING:
    from drivetrain.resolver import written as writing
else:
    writing = Later("drivetrain.resolver.written")

SINCE, REMOVED = "0.1", "1.0"


@dataclass(frozen=True)
class Translation:
    """What an old argument says today."""

    flags: Mapping[str, object] = field(default_factory=dict)
    """Flags that it sets: ``{"devices": 2}``."""
    implies: Mapping[str, object] = field(default_factory=dict)
    """Flags that follow from it, unless a fitting one is said: gpus implies ``accelerator="gpu"``."""
    trainer: Mapping[str, object] = field(default_factory=dict)
    """Other arguments of the Trainer: ``{"enable_checkpointing": False}``."""
    elsewhere: str = ""
    """What to write beside the Trainer's call: ``trainer.fit(model, ckpt_path=...)``."""
    refused: str = ""
    """Why it is not translated; the way out stands in it."""


Reader: TypeAlias = Callable[[object], Translation]


@dataclass(frozen=True)
class Legacy:
    """One old argument of the Trainer."""

    name: str
    read: Reader
    since: str = SINCE
    removed: str = REMOVED


def is_removed(removed: str, version: str) -> bool:
    """Whether the given release of drivetrain no longer translates what ends with ``removed``."""
    return _release(version) >= _release(removed)


def _release(version: str) -> tuple[int, ...]:
    return tuple(int(piece) for piece in version.split(".")[:2] if piece.isdecimal())


def _devices_of(name: str, kind: str, value: object) -> Translation:
    try:
        parse_devices(value, name)
    except Problem as problem:
        fixes = ({"accelerator": kind, **fix} for fix in problem.fixes)
        raise Problem(problem.message, problem.because, *fixes) from None
    return Translation(flags={"devices": value}, implies={"accelerator": kind})


def _gpus(value: object) -> Translation:
    if isinstance(value, str) and value.strip() == "0":
        value = 0
    if type(value) is int and value == 0:
        return Translation(implies={"accelerator": "cpu"})
    return _devices_of("gpus", "gpu", value)


def _num_processes(value: object) -> Translation:
    try:
        count = parse_count("num_processes", value, MOST)
    except Problem as problem:
        is_near = isinstance(value, float) and 1 <= value <= MOST
        near = int(value) if is_near and isinstance(value, float) else 1
        fix = {"accelerator": "cpu", "devices": near}
        raise Problem(problem.message, problem.because, fix) from None
    return Translation(flags={"devices": count}, implies={"accelerator": "cpu"})


def _tpu_cores(value: object) -> Translation:
    asked = None
    with contextlib.suppress(Problem):
        asked = parse_devices(value)
    if asked and asked.count in (1, 8):
        return Translation(flags={"devices": asked.count}, implies={"accelerator": "tpu"})
    if asked and asked.indices and len(asked.indices) == 1 and asked.indices[0] >= 1:
        # Old indices began at 1.
        return Translation(flags={"devices": [asked.indices[0] - 1]}, implies={"accelerator": "tpu"})
    message = f"tpu_cores={show(value)} was never valid"
    fixes = ({"accelerator": "tpu", "devices": count} for count in (8, 1))
    raise Problem(message, "tpu_cores was 1, 8 or a list with one index from 1 to 8", *fixes)


def _ipus(value: object) -> Translation:
    return _devices_of("ipus", "ipu", value)


def _strategy(value: object) -> Translation:
    return Translation(flags={"strategy": value})


def _amp_backend(value: object) -> Translation:
    name = value.strip().lower() if isinstance(value, str) else ""
    if name == "native":
        return Translation()
    if name == "apex":
        return Translation(refused='apex is no longer developed; torch\'s own is precision="16-mixed"')
    raise Problem(f"amp_backend={show(value)} was never valid", 'amp_backend was "native" or "apex"')


_AMP_LEVELS = {"O0": "32-true", "O1": "16-mixed", "O2": "16-mixed", "O3": "16-true"}


def _amp_level(value: object) -> Translation:
    level = value.strip().upper() if isinstance(value, str) else ""
    if level not in _AMP_LEVELS:
        raise Problem(f"amp_level={show(value)} was never valid", "amp_level was O0, O1, O2 or O3")
    if level == "O2":  # the default, which meant nothing without apex
        return Translation()
    today = _AMP_LEVELS[level]
    return Translation(refused=f'apex is no longer developed; the nearest today is precision="{today}"')


def _off_or(otherwise: str, *off: object) -> Reader:
    """Read an argument that is dropped when it is off or at its old default, and otherwise refused."""

    def read(value: object) -> Translation:
        refused = otherwise.replace("{value}", writing.brief(value))
        return Translation() if _is_one_of(value, off) else Translation(refused=refused)

    return read


def _is_one_of(value: object, off: tuple[object, ...]) -> bool:
    return value is None or any(type(value) is type(quiet) and value == quiet for quiet in off)


def _switch(name: str, on: Mapping[str, object], off: Mapping[str, object] | None = None) -> Reader:
    """Read a switch that is another argument of the Trainer today."""

    def read(value: object) -> Translation:
        try:
            is_on = parse_switch(name, value)
        except Problem as problem:
            raise Problem(problem.message, problem.because) from None
        return Translation(trainer=on if is_on else off or {})

    return read


def _resume_from_checkpoint(value: object) -> Translation:
    return Translation(
        trainer={"resume_from_checkpoint": value},
        elsewhere=f"trainer.fit(model, ckpt_path={writing.written(value)})",
    )


def _checkpoint_callback(value: object) -> Translation:
    if isinstance(value, bool):
        return Translation(trainer={"enable_checkpointing": value})
    return Translation(
        refused=f"a checkpoint callback stands with the others: callbacks=[{writing.brief(value)}]"
    )


def _progress_bar_refresh_rate(value: object) -> Translation:
    if type(value) is int and value == 0:
        return Translation(trainer={"enable_progress_bar": False})
    return _off_or(
        "the bar is a callback that holds its own rate: callbacks=[TQDMProgressBar(refresh_rate={value})]", 1
    )(value)


def _weights_summary(value: object) -> Translation:
    if isinstance(value, str) and value == "full":
        return Translation(refused="the table is a callback: callbacks=[ModelSummary(max_depth=-1)]")
    if isinstance(value, str) and value == "top":  # the default
        return Translation()
    raise Problem(
        f"weights_summary={show(value)} was never valid", 'weights_summary was "top", "full" or None'
    )


def _auto_scale_batch_size(value: object) -> Translation:
    if _is_one_of(value, (False,)):
        return Translation()
    mode = f", mode={writing.brief(value)}" if isinstance(value, str) else ""  # True was the default mode
    return Translation(
        refused=f"search before the fit: dt.Tuner(trainer).scale_batch_size(model{mode}), whose loaders "
        "are made with self.batch_size"
    )


def _track_grad_norm(value: object) -> Translation:
    if _is_one_of(value, (-1, -1.0)):
        return Translation()
    order = (
        'float("inf")' if isinstance(value, str) and value.strip().lower() == "inf" else writing.brief(value)
    )
    return Translation(
        refused='log it in on_before_optimizer_step: self.log("grad_norm", torch.nn.utils.get_total_norm('
        f"[one.grad for one in self.parameters() if one.grad is not None], norm_type={order}))"
    )


_ROWS = (
    Legacy("gpus", _gpus),
    Legacy("num_processes", _num_processes),
    Legacy("tpu_cores", _tpu_cores),
    Legacy("ipus", _ipus),
    Legacy("distributed_backend", _strategy),
    Legacy(
        "auto_select_gpus", _off_or("it never knew which GPUs are busy; name them: devices=[0, 1]", False)
    ),
    Legacy("amp_backend", _amp_backend),
    Legacy("amp_level", _amp_level),
    # Sharing batches out among the ranks is what happens anyway.
    Legacy("replace_sampler_ddp", _switch("replace_sampler_ddp", {}, {"use_distributed_sampler": False})),
    Legacy("resume_from_checkpoint", _resume_from_checkpoint),
    Legacy("checkpoint_callback", _checkpoint_callback),
    Legacy("progress_bar_refresh_rate", _progress_bar_refresh_rate),
    Legacy("weights_summary", _weights_summary),
    Legacy("terminate_on_nan", _switch("terminate_on_nan", {"detect_anomaly": True})),
    Legacy(
        "flush_logs_every_n_steps",
        _off_or("the logger holds it: logger=CSVLogger(flush_logs_every_n_steps={value})", 100),
    ),
    Legacy(
        "weights_save_path", _off_or("the checkpoint holds it: callbacks=[ModelCheckpoint(dirpath={value})]")
    ),
    Legacy(
        "stochastic_weight_avg",
        _off_or("it is a callback: callbacks=[StochasticWeightAveraging(swa_lrs=1e-2)]", False),
    ),
    Legacy("track_grad_norm", _track_grad_norm),
    Legacy(
        "auto_lr_find",
        _off_or("search before the fit: dt.Tuner(trainer).lr_find(model, train_dataloaders)", False),
    ),
    Legacy("auto_scale_batch_size", _auto_scale_batch_size),
    Legacy("move_metrics_to_cpu", _off_or("log value.cpu() where memory is short", False)),
    Legacy(
        "multiple_trainloader_mode",
        _off_or(
            "the loaders hold it: train_dataloaders=CombinedLoader(loaders, mode={value})", "max_size_cycle"
        ),
    ),
    Legacy(
        "prepare_data_per_node",
        _off_or("ask in prepare_data for the node: if self.trainer.node_rank == 0", True),
    ),
    Legacy(
        "process_position",
        _off_or("the bar holds it: callbacks=[TQDMProgressBar(process_position={value})]", 0),
    ),
    Legacy("log_gpu_memory", _off_or("it is a callback: callbacks=[DeviceStatsMonitor()]", False)),
    Legacy(
        "truncated_bptt_steps",
        _off_or(
            "set automatic_optimization = False and, in training_step, step once every {value} time steps",
            0,
        ),
    ),
    Legacy(
        "reload_dataloaders_every_epoch",
        _switch("reload_dataloaders_every_epoch", {"reload_dataloaders_every_n_epochs": 1}),
    ),
)
LEGACY: Mapping[str, Legacy] = MappingProxyType({row.name: row for row in _ROWS})

DOORS: Mapping[str, Legacy] = MappingProxyType(
    {
        "accelerator": Legacy("accelerator", _strategy),
        "plugins": Legacy("plugins", _strategy),
    }
)
"""Today's flags through which a strategy used to come in."""
