"""Class names as they were: what each stands for today, and how its arguments are read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import FunctionType, MappingProxyType
from typing import TypeAlias

from drivetrain.flags.devices import MOST
from drivetrain.flags.problem import Problem
from drivetrain.resolver.legacy import REMOVED, SINCE


@dataclass(frozen=True)
class Read:
    """What an old keyword says: options of the strategy, and flags."""

    options: Mapping[str, object] = field(default_factory=dict)
    flags: Mapping[str, object] = field(default_factory=dict)


Reader: TypeAlias = Callable[[object, Mapping[str, object]], Read]
"""From a keyword's value, and all that was given, to what it says; raises Problem."""


@dataclass(frozen=True)
class OldName:
    """An old class name: a strategy as text, or a shipped plug-in; its arguments; its release window."""

    name: str
    strategy: str = ""
    positional: tuple[str, ...] = ()
    """The arguments whose places were the same in all releases."""
    keywords: Mapping[str, Reader] = field(default_factory=dict)
    """By old keyword; one that is not here is an option or a part of today's strategy."""
    beside: str = ""
    """The member that splits the data, where the strategy is the one that splits the model."""
    plugin: tuple[str, str] | None = None
    """Not a strategy but this table's entry: ``("environments", "torchrun")``."""
    refused: tuple[str, str] | None = None
    """Why there is nothing like it, and what to write instead."""
    since: str = SINCE
    removed: str = REMOVED


def _flag(name: str) -> Reader:
    return lambda value, _: Read(flags={name: value})


def _nothing_if(*off: object) -> Reader:
    """Read a keyword that says nothing at the value that it usually had."""

    def read(value: object, _: Mapping[str, object]) -> Read:
        if not any(type(value) is type(quiet) and value == quiet for quiet in off):
            raise Problem("has no like today", "what cannot be kept is refused")
        return Read()

    return read


def _device(kind_of_number: str, first: int = 0) -> Reader:
    """Read one device: a number, a text such as ``cuda:1`` or a torch.device; numbers start at ``first``."""

    def read(value: object, _: Mapping[str, object]) -> Read:
        kind, index = _place(value, kind_of_number, first)
        return Read(
            flags={"accelerator": kind} | ({} if index is None or kind == "cpu" else {"devices": [index]})
        )

    return read


def _place(value: object, kind_of_number: str, first: int = 0) -> tuple[str, int | None]:
    text = str(value) if isinstance(value, str) or type(value).__name__ == "device" else ""
    kind, colon, number = text.strip().partition(":")
    index = int(number) if number.isdecimal() and len(number) <= len(str(MOST)) else -1 if colon else None
    if type(value) is int:
        kind, index = kind_of_number, value
    kind = {"xla": "tpu"}.get(kind, kind)
    lowest = first if kind == "tpu" else 0
    if not kind.isidentifier() or (index is not None and not lowest <= index <= MOST):
        rule = 'a device is a number, a text such as "cuda:1" or a torch.device'
        raise Problem("is no device", rule + (f"; numbers started at {first}" if first else ""))
    return kind, None if index is None else index - lowest


def _parallel_devices(kind_of_number: str) -> Reader:
    def read(value: object, _: Mapping[str, object]) -> Read:
        if not isinstance(value, (list, tuple)) or not value:
            raise Problem("is no list of devices", "parallel_devices is a list of torch.device")
        places = [_place(one, kind_of_number) for one in value]
        kinds, numbers = {kind for kind, _ in places}, [number for _, number in places]
        if kinds == {"cpu"}:
            return Read(flags={"accelerator": "cpu", "devices": len(places)})
        if len(kinds) > 1 or (None in numbers and len(numbers) > 1):
            raise Problem("is no list of devices of one kind", "each device has a number")
        return Read(flags={"accelerator": min(kinds), "devices": 1 if numbers == [None] else numbers})

    return read


def _timeout(value: object, _: Mapping[str, object]) -> Read:
    seconds = getattr(value, "total_seconds", None)
    if not callable(seconds):
        raise Problem("is no timedelta", "timeout is a datetime.timedelta")
    return Read(options={"timeout_s": seconds()})


_HOOKS = {"fp16_compress_hook": "fp16", "bf16_compress_hook": "bf16", "powerSGD_hook": "powersgd"}
_TORCHS = "torch.distributed.algorithms.ddp_comm_hooks."


def _comm_hook(value: object, _: Mapping[str, object]) -> Read:
    """Read a function: torch's by its short name, the user's by the place where ranks find it."""
    if value is None:
        return Read()
    place, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if str(place).startswith(_TORCHS) and name in _HOOKS:
        return Read(options={"comm_hook": _HOOKS[str(name)]})
    if not isinstance(value, FunctionType) or "<" in value.__qualname__ or place == "__main__":
        because = "each rank imports the hook by its name: a function of a module, and not of the script"
        raise Problem("is no function that ranks can import", because)
    return Read(options={"comm_hook": f"{place}:{name}"})


def _comm_state(value: object, given: Mapping[str, object]) -> Read:
    """Read torch's PowerSGDState; its other settings stand for how it works, and have no counterpart."""
    if value is None:
        return Read()
    rank, start = (
        getattr(value, name, None) for name in ("matrix_approximation_rank", "start_powerSGD_iter")
    )
    if getattr(given.get("ddp_comm_hook"), "__name__", "") != "powerSGD_hook" or type(rank) is not int:
        raise Problem("is no PowerSGDState of powerSGD_hook", "other hooks are given the process group")
    return Read(options={"powersgd_rank": rank, "powersgd_start": start})


def _start_method(value: object, _: Mapping[str, object]) -> Read:
    methods = {"popen": "subprocess", "spawn": "spawn", "fork": "fork", "forkserver": "forkserver"}
    if value not in methods:
        raise Problem("is no way to start ranks", f"start_method is one of {', '.join(methods)}")
    return Read(flags={"launcher": methods[str(value)]})


def _zero_optimization(value: object, given: Mapping[str, object]) -> Read:
    if not isinstance(value, bool):
        raise Problem("is no switch", "zero_optimization is True or False")
    if not value and "stage" in given:
        raise Problem("and stage are both given", "without ZeRO there is no stage but 0")
    return Read() if value else Read(options={"stage": 0})


def _offload(option: str, device: str) -> Reader:
    """Read a switch beside a keyword that names the device, ``cpu`` unless it is given."""

    def read(value: object, given: Mapping[str, object]) -> Read:
        if isinstance(value, bool):
            return Read(options={option: given.get(device, "cpu")} if value else {})
        return Read(options={option: value})

    return read


def _size(value: object, given: Mapping[str, object]) -> Read:
    if type(value) is not int or given.get("data_parallel_size", "auto") != "auto":
        because = "the ranks that tp leaves split the data: devices x num_nodes = data x tensor parallel size"
        raise Problem("has to be said with the number of devices", because)
    return Read(options={"size": value})


_PARTS: Mapping[str, Reader] = {
    "cluster_environment": _flag("environment"),
    "precision_plugin": _flag("precision"),
    "num_nodes": _flag("num_nodes"),
    "sync_batchnorm": _flag("sync_batchnorm"),
    "timeout": _timeout,
}
_GPUS = {**_PARTS, "parallel_devices": _parallel_devices("gpu")}
_TPUS = {**_PARTS, "parallel_devices": _parallel_devices("tpu")}
_HPUS = {**_PARTS, "parallel_devices": _parallel_devices("hpu")}
_IPUS = {**_PARTS, "parallel_devices": _parallel_devices("ipu")}
_DDP = {**_GPUS, "ddp_comm_hook": _comm_hook, "ddp_comm_state": _comm_state}
_SHARDED = {**_GPUS, "find_unused_parameters": _nothing_if(False)}
_DEEPSPEED = {
    **_GPUS,
    "zero_optimization": _zero_optimization,
    "cpu_offload": _offload("offload_optimizer", ""),
    "offload_optimizer": _offload("offload_optimizer", "offload_optimizer_device"),
    "offload_optimizer_device": lambda *_: Read(),
    "offload_parameters": _offload("offload_parameters", "offload_params_device"),
    "offload_params_device": lambda *_: Read(),
    "remote_device": _nothing_if("cpu"),
}
_PLUGIN, _STRATEGY = ("parallel_devices",), ("accelerator", "parallel_devices", "cluster_environment")
_SINGLE, _ALONE = ("device", "checkpoint_io", "precision_plugin"), ("device", "accelerator", "checkpoint_io")


def _alone(kind: str, first: int = 0) -> Mapping[str, Reader]:
    return {**_PARTS, "device": _device(kind, first)}


_OWN = ("an algorithm of your own implements dt.Strategy", 'strategy="ddp"')
_HIVEMIND = ("Hivemind's peers, which come and go, are not supported", 'strategy="local_sgd"')
_DP = ("'dp' copied the model to each device every step; 'ddp' is faster everywhere", 'strategy="ddp"')
_DDP2 = ("'ddp2' ran dp inside each node and ddp across nodes; 'ddp' does both", 'strategy="ddp"')
_PIPELINE = ("its pipeline is what 'pp' does", 'strategy="pp"')
_APEX = ("apex is no longer developed", 'precision="16-mixed"')
_TENSOR = {
    **_GPUS,
    "tensor_parallel_size": _size,
    "data_parallel_size": _nothing_if("auto"),
    "save_distributed_checkpoint": _nothing_if(True),
}
_PRECISION = ("precision", "device", "scaler")
_PRECISIONS = (
    "DeepSpeedPrecision",
    "DeepSpeedPrecisionPlugin",
    "FSDPMixedPrecisionPlugin",
    "FSDPPrecision",
    "FullyShardedNativeMixedPrecisionPlugin",
    "HPUPrecisionPlugin",
    "HalfPrecision",
    "IPUPrecisionPlugin",
    "MixedPrecisionPlugin",
    "NativeMixedPrecisionPlugin",
    "ShardedNativeMixedPrecisionPlugin",
)
"""Classes that took the precision as their first argument; where the name says so, only a mixed one."""

_ROWS = (
    OldName("TrainingTypePlugin", refused=_OWN),
    OldName("ParallelPlugin", refused=_OWN),
    OldName("ParallelStrategy", refused=_OWN),
    OldName("DDP2Plugin", refused=_DDP2),
    OldName("DDP2Strategy", refused=_DDP2),
    OldName("DataParallelPlugin", refused=_DP),
    OldName("DataParallelStrategy", refused=_DP),
    OldName("RPCPlugin", refused=_PIPELINE),
    OldName("RPCSequentialPlugin", refused=_PIPELINE),
    OldName("BaguaStrategy", refused=("Bagua is no longer maintained", 'strategy="ddp"')),
    OldName("CollaborativeStrategy", refused=_HIVEMIND),
    OldName("HivemindStrategy", refused=_HIVEMIND),
    OldName("ApexMixedPrecisionPlugin", refused=_APEX),
    OldName("DDPPlugin", "ddp", _PLUGIN, _DDP),
    OldName("DDPSpawnPlugin", "ddp_spawn", _PLUGIN, _DDP),
    OldName("DDPSpawnStrategy", "ddp_spawn", _STRATEGY, _DDP),
    OldName("DDPShardedPlugin", "ddp_sharded", _PLUGIN, _SHARDED),
    OldName("DDPShardedStrategy", "ddp_sharded", _STRATEGY, _SHARDED),
    OldName("DDPSpawnShardedPlugin", "ddp_sharded_spawn", _PLUGIN, _SHARDED),
    OldName("DDPSpawnShardedStrategy", "ddp_sharded_spawn", _STRATEGY, _SHARDED),
    OldName("DDPFullyShardedPlugin", "ddp_fully_sharded", ("cpu_offload",), _GPUS),
    OldName("DDPFullyShardedStrategy", "ddp_fully_sharded", ("accelerator", "cpu_offload"), _GPUS),
    OldName("DDPFullyShardedNativeStrategy", "fsdp_native", _STRATEGY, _GPUS),
    OldName("DeepSpeedPlugin", "deepspeed", ("zero_optimization", "stage"), _DEEPSPEED),
    OldName("HorovodPlugin", "horovod", _PLUGIN, _GPUS),
    OldName("HPUParallelStrategy", "hpu_parallel", _STRATEGY, _HPUS),
    OldName("IPUPlugin", "ipu", (), _IPUS),
    OldName("ModelParallelStrategy", "tp", (), _TENSOR, beside="fsdp"),
    OldName("SingleDevicePlugin", "single", _SINGLE, _alone("gpu")),
    OldName("SingleDeviceStrategy", "single", _ALONE, _alone("gpu")),
    OldName("SingleHPUStrategy", "single_hpu", _ALONE, _alone("hpu")),
    OldName("SingleTPUPlugin", "single_tpu", _SINGLE, _alone("tpu", first=1)),
    OldName("SingleTPUStrategy", "single_tpu", _ALONE, _alone("tpu", first=1)),
    OldName("SingleDeviceXLAStrategy", "single_xla", _ALONE, _alone("tpu")),
    OldName("SingleXLAStrategy", "single_xla", _ALONE, _alone("tpu")),
    OldName("TPUSpawnPlugin", "tpu_spawn", _PLUGIN, _TPUS),
    OldName("TPUSpawnStrategy", "tpu_spawn", _STRATEGY, _TPUS),
    OldName("PrecisionPlugin", plugin=("precisions", "32-true")),
    OldName("DoublePrecision", plugin=("precisions", "64-true")),
    OldName("DoublePrecisionPlugin", plugin=("precisions", "64-true")),
    *(OldName(name, plugin=("precisions", ""), positional=_PRECISION) for name in _PRECISIONS),
    OldName("LightningEnvironment", plugin=("environments", "none")),
    OldName("TorchElasticEnvironment", plugin=("environments", "torchrun")),
    OldName("TorchCheckpointIO", plugin=("checkpoint_ios", "local")),
    OldName("NativeSyncBatchNorm", plugin=("layer_syncs", "batchnorm")),
    OldName("TorchSyncBatchNorm", plugin=("layer_syncs", "batchnorm")),
)
OLD_NAMES: Mapping[str, OldName] = MappingProxyType({row.name: row for row in _ROWS})

_SAME = (
    OldName("DDPStrategy", "ddp", _STRATEGY, {**_DDP, "start_method": _start_method}),
    OldName("DeepSpeedStrategy", "deepspeed", ("accelerator", "zero_optimization", "stage"), _DEEPSPEED),
    OldName("FSDPStrategy", "fsdp", _STRATEGY, _GPUS),
    OldName("XLAStrategy", "xla", _STRATEGY, _TPUS),
)
SAME_NAMES: Mapping[str, OldName] = MappingProxyType({row.name: row for row in _SAME})
"""Lightning's classes whose names are those of ours, for its users: the arguments are Lightning's."""
