"""Other spellings of strategies: the names that Lightning users know, of all releases.

An alias is parsing only: it stands for a name with options, and for the launcher or accelerator
that the old name had swallowed.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field

from drivetrain.flags.calls import Value


@dataclass(frozen=True)
class Alias:
    """What an old name stands for."""

    name: str
    options: Mapping[str, Value] = field(default_factory=dict)
    launcher: str | None = None
    accelerator: str | None = None


REFUSED: Mapping[str, tuple[str, str]] = {
    "dp": (
        "'dp' copied the model to each device every step in one process; 'ddp' is faster everywhere",
        "ddp",
    ),
    "ddp2": ("'ddp2' ran dp inside each node and ddp across nodes; 'ddp' does both", "ddp"),
    "rpc_sequential": ("its pipeline is what 'pp' does", "pp"),
    "collaborative": ("Hivemind's peers, which come and go, are not supported", "local_sgd"),
    "hivemind": ("Hivemind's peers, which come and go, are not supported", "local_sgd"),
    "bagua": ("Bagua is no longer maintained", "ddp"),
    "colossalai": ("its sharding is what 'fsdp' does", "fsdp"),
}
"""Names of algorithms that nobody should use any more: why, and what to use instead."""

_UNUSED = "find_unused_parameters"


def _ddp_family() -> Iterator[tuple[str, Alias]]:
    for suffix, launcher in (("", None), ("_spawn", "spawn"), ("_fork", "fork"), ("_notebook", "fork")):
        if suffix:
            yield f"ddp{suffix}", Alias("ddp", launcher=launcher)
        for word, value in (("true", True), ("false", False)):
            yield f"ddp{suffix}_{_UNUSED}_{word}", Alias("ddp", {_UNUSED: value}, launcher)


_GRADIENTS_SHARDED: Mapping[str, Value] = {"reshard_after_forward": False}

ALIASES: Mapping[str, Alias] = {
    **dict(_ddp_family()),
    "ddp_cpu": Alias("ddp", accelerator="cpu"),
    "ddp_sharded": Alias("fsdp", _GRADIENTS_SHARDED),
    "ddp_sharded_spawn": Alias("fsdp", _GRADIENTS_SHARDED, launcher="spawn"),
    "ddp_sharded_find_unused_parameters_false": Alias("fsdp", _GRADIENTS_SHARDED),
    "ddp_sharded_spawn_find_unused_parameters_false": Alias("fsdp", _GRADIENTS_SHARDED, launcher="spawn"),
    "ddp_fully_sharded": Alias("fsdp"),
    "fsdp_native": Alias("fsdp"),
    "fsdp_native_full_shard_offload": Alias("fsdp", {"cpu_offload": True}),
    "fsdp_cpu_offload": Alias("fsdp", {"cpu_offload": True}),
    "deepspeed_stage_0": Alias("deepspeed", {"stage": 0}),
    "deepspeed_stage_1": Alias("deepspeed", {"stage": 1}),
    "deepspeed_stage_1_offload": Alias("deepspeed", {"stage": 1, "offload_optimizer": "cpu"}),
    "deepspeed_stage_1_offload_nvme": Alias("deepspeed", {"stage": 1, "offload_optimizer": "nvme"}),
    "deepspeed_stage_2": Alias("deepspeed", {"stage": 2}),
    "deepspeed_stage_2_offload": Alias("deepspeed", {"stage": 2, "offload_optimizer": "cpu"}),
    "deepspeed_stage_2_offload_nvme": Alias("deepspeed", {"stage": 2, "offload_optimizer": "nvme"}),
    "deepspeed_stage_3": Alias("deepspeed", {"stage": 3}),
    "deepspeed_stage_3_offload": Alias(
        "deepspeed", {"stage": 3, "offload_optimizer": "cpu", "offload_parameters": "cpu"}
    ),
    "deepspeed_stage_3_offload_nvme": Alias(
        "deepspeed", {"stage": 3, "offload_optimizer": "nvme", "offload_parameters": "nvme"}
    ),
    "tpu_spawn": Alias("xla"),
    "tpu_spawn_debug": Alias("xla", {"debug": True}),
    "xla_debug": Alias("xla", {"debug": True}),
    "single_device": Alias("single"),
    "single_tpu": Alias("single", accelerator="tpu"),
    "single_xla": Alias("single", accelerator="tpu"),
    "single_hpu": Alias("single", accelerator="hpu"),
    "hpu_single": Alias("single", accelerator="hpu"),
    "hpu_parallel": Alias("ddp", accelerator="hpu"),
    "ipu_strategy": Alias("ipu", accelerator="ipu"),
}


def alias_of(name: str, known: Container[str]) -> Alias | None:
    """Return what a name stands for; None for a strategy's own name, ``known``, and for what is no alias."""
    lower = name.lower()
    return None if name in known or lower in REFUSED else ALIASES.get(lower)
