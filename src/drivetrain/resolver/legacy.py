"""Old spellings: what each means today, or why it is refused and what to write instead.

A row says how one old Trainer argument is read. The release that deprecated it and the one that
removes it stand on the row; from the latter on the translation is an error with the same text.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeAlias

from drivetrain.base.text import Code, arguments, literal, show
from drivetrain.flags.devices import parse_devices
from drivetrain.flags.problem import Problem

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


def is_removed(row: Legacy | OldName, version: str) -> bool:
    """Whether the given release of drivetrain no longer translates this row."""
    return _release(version) >= _release(row.removed)


def _release(version: str) -> tuple[int, ...]:
    return tuple(int(piece) for piece in version.split(".")[:2] if piece.isdecimal())


def _gpus(value: object) -> Translation:
    if isinstance(value, str) and value.strip() == "0":
        value = 0
    if type(value) is int and value == 0:
        return Translation(flags={"accelerator": "cpu"})
    parse_devices(value)
    return Translation(flags={"devices": value}, implies={"accelerator": "gpu"})


def _num_processes(value: object) -> Translation:
    if type(value) is not int or value < 1:
        message = f"num_processes={show(value)} is not a count"
        raise Problem(message, "num_processes was an int of at least 1", {"num_processes": 1})
    return Translation(flags={"devices": value}, implies={"accelerator": "cpu"})


def _tpu_cores(value: object) -> Translation:
    asked = None
    with contextlib.suppress(Problem):
        asked = parse_devices(value)
    if asked and asked.count in (1, 8):
        return Translation(flags={"accelerator": "tpu", "devices": asked.count})
    if asked and asked.indices and len(asked.indices) == 1 and asked.indices[0] >= 1:
        # Old indices began at 1.
        return Translation(flags={"accelerator": "tpu", "devices": [asked.indices[0] - 1]})
    message = f"tpu_cores={show(value)} was never valid"
    raise Problem(
        message, "tpu_cores was 1, 8 or a list with one index from 1 to 8", {"tpu_cores": 8}, {"tpu_cores": 1}
    )


def _ipus(value: object) -> Translation:
    parse_devices(value)
    return Translation(flags={"accelerator": "ipu", "devices": value})


def _strategy(value: object) -> Translation:
    return Translation(flags={"strategy": value})


def _amp_backend(value: object) -> Translation:
    if isinstance(value, str) and value == "native":
        return Translation()
    return Translation(refused='apex is no longer developed; torch\'s own is precision="16-mixed"')


def _amp_level(value: object) -> Translation:
    today = {"O0": "32-true", "O1": "16-mixed", "O2": "16-mixed", "O3": "16-true"}
    precision = today.get(value.upper() if isinstance(value, str) else "", "16-mixed")
    return Translation(refused=f'apex is no longer developed; the nearest today is precision="{precision}"')


def _switch_off(otherwise: str, *off: object) -> Reader:
    """Read an argument that is dropped when off, and otherwise refused with what to write."""

    def read(value: object) -> Translation:
        is_off = value is None or any(type(value) is type(quiet) and value == quiet for quiet in off)
        return Translation() if is_off else Translation(refused=otherwise.replace("{value}", show(value)))

    return read


def _resume_from_checkpoint(value: object) -> Translation:
    return Translation(
        trainer={"resume_from_checkpoint": value}, elsewhere=f"trainer.fit(model, ckpt_path={literal(value)})"
    )


def _replace_sampler_ddp(value: object) -> Translation:
    # Sharing batches out among the ranks is what happens anyway.
    return Translation() if value is True else Translation(trainer={"use_distributed_sampler": value})


def _checkpoint_callback(value: object) -> Translation:
    if isinstance(value, bool):
        return Translation(trainer={"enable_checkpointing": value})
    return Translation(refused=f"a checkpoint callback stands with the others: callbacks=[{show(value)}]")


def _progress_bar_refresh_rate(value: object) -> Translation:
    if type(value) is int and value == 0:
        return Translation(trainer={"enable_progress_bar": False})
    return Translation(
        refused="the bar is a callback that holds its own rate: "
        f"callbacks=[TQDMProgressBar(refresh_rate={show(value)})]"
    )


_ROWS = (
    Legacy("gpus", _gpus),
    Legacy("num_processes", _num_processes),
    Legacy("tpu_cores", _tpu_cores),
    Legacy("ipus", _ipus),
    Legacy("distributed_backend", _strategy),
    Legacy(
        "auto_select_gpus", _switch_off("it never knew which GPUs are busy; name them: devices=[0, 1]", False)
    ),
    Legacy("amp_backend", _amp_backend),
    Legacy("amp_level", _amp_level),
    Legacy("replace_sampler_ddp", _replace_sampler_ddp),
    Legacy("resume_from_checkpoint", _resume_from_checkpoint),
    Legacy("checkpoint_callback", _checkpoint_callback),
    Legacy("progress_bar_refresh_rate", _progress_bar_refresh_rate),
    Legacy(
        "weights_summary",
        lambda value: Translation(
            refused="the table is a callback: callbacks=[ModelSummary(max_depth="
            + ("-1" if isinstance(value, str) and value == "full" else "1")
            + ")]"
        ),
    ),
    Legacy("terminate_on_nan", _switch_off("write detect_anomaly=True", False)),
    Legacy(
        "flush_logs_every_n_steps",
        _switch_off("the logger holds it: logger=CSVLogger(flush_logs_every_n_steps={value})"),
    ),
    Legacy(
        "weights_save_path",
        _switch_off("the checkpoint holds it: callbacks=[ModelCheckpoint(dirpath={value})]"),
    ),
    Legacy(
        "stochastic_weight_avg",
        _switch_off("it is a callback: callbacks=[StochasticWeightAveraging(swa_lrs=1e-2)]", False),
    ),
    Legacy(
        "track_grad_norm",
        _switch_off(
            "log it in on_before_optimizer_step: self.log_dict(grad_norm(self, norm_type={value}))", -1, -1.0
        ),
    ),
    Legacy("auto_lr_find", _switch_off("call Tuner(trainer).lr_find(model) before fit", False)),
    Legacy(
        "auto_scale_batch_size", _switch_off("call Tuner(trainer).scale_batch_size(model) before fit", False)
    ),
    Legacy("move_metrics_to_cpu", _switch_off("log value.cpu() where memory is short", False)),
    Legacy(
        "multiple_trainloader_mode",
        _switch_off("the loaders hold it: train_dataloaders=CombinedLoader(loaders, mode={value})"),
    ),
    Legacy("prepare_data_per_node", _switch_off("set prepare_data_per_node = False on the DataModule", True)),
    Legacy(
        "process_position",
        _switch_off("the bar holds it: callbacks=[TQDMProgressBar(process_position={value})]", 0),
    ),
    Legacy("log_gpu_memory", _switch_off("it is a callback: callbacks=[DeviceStatsMonitor()]", False)),
    Legacy("truncated_bptt_steps", _switch_off("set self.truncated_bptt_steps = {value} on the Module", 0)),
    Legacy("reload_dataloaders_every_epoch", _switch_off("write reload_dataloaders_every_n_epochs=1", False)),
)
LEGACY: Mapping[str, Legacy] = MappingProxyType({row.name: row for row in _ROWS})

DOORS: Mapping[str, Legacy] = MappingProxyType(
    {
        "accelerator": Legacy("accelerator", _strategy),
        "plugins": Legacy("plugins", _strategy),
    }
)
"""Today's flags through which a strategy used to come in."""


@dataclass(frozen=True)
class OldName:
    """An old class name: what stands for it, as a strategy's text, and its release window."""

    name: str
    strategy: str
    renamed: Mapping[str, str] = field(default_factory=dict)
    """Old keyword -> today's."""
    since: str = SINCE
    removed: str = REMOVED


_PARTS = {
    "cluster_environment": "environment",
    "precision_plugin": "precision",
    "parallel_devices": "devices",
}

OLD_NAMES: Mapping[str, OldName] = MappingProxyType(
    {
        name: OldName(name, strategy, _PARTS)
        for name, strategy in {
            "TrainingTypePlugin": "",
            "ParallelPlugin": "",
            "DDPPlugin": "ddp",
            "DDPSpawnPlugin": "ddp_spawn",
            "DDP2Plugin": "ddp2",
            "DataParallelPlugin": "dp",
            "DDPShardedPlugin": "ddp_sharded",
            "DDPSpawnShardedPlugin": "ddp_sharded_spawn",
            "DDPFullyShardedPlugin": "ddp_fully_sharded",
            "DeepSpeedPlugin": "deepspeed",
            "HorovodPlugin": "horovod",
            "IPUPlugin": "ipu",
            "SingleDevicePlugin": "single",
            "SingleTPUPlugin": "single_tpu",
            "TPUSpawnPlugin": "tpu_spawn",
            "DDPSpawnStrategy": "ddp_spawn",
            "DDPShardedStrategy": "ddp_sharded",
            "DDPSpawnShardedStrategy": "ddp_sharded_spawn",
            "DDPFullyShardedStrategy": "ddp_fully_sharded",
            "DDPFullyShardedNativeStrategy": "fsdp_native",
            "DataParallelStrategy": "dp",
            "SingleDeviceStrategy": "single",
            "SingleTPUStrategy": "single_tpu",
            "TPUSpawnStrategy": "tpu_spawn",
        }.items()
    }
)


def new_call(caller: str, values: Mapping[str, object]) -> str:
    """Write the call as it should read today."""
    return f"{caller}({arguments({name: _written(value) for name, value in values.items()})})"


def _written(value: object) -> object:
    if value is None or isinstance(value, (str, bool, int, float, list)):
        return value
    written = getattr(value, "written", None)
    return Code(written) if isinstance(written, str) else value
