"""Hybrid sharded data parallel: sharded within a group, replicated across groups."""

from typing import final

from drivetrain.resolver.facts import Option, StrategyFacts
from drivetrain.resolver.spec import NamedSpec

_FACTS = StrategyFacts(
    name="hsdp",
    title="sharded within a replica, replicated across (2-D mesh)",
    axes=("dp_replicate", "dp_shard"),
    role="data",
    layout=lambda options, num_nodes: {
        "dp_replicate": options.get("replicate") or num_nodes,
        "dp_shard": None,
    },
    options={
        "replicate": Option(None, "number of replicas; one per node when not said", (int,), least=1),
        "reshard_after_forward": Option(
            True, "free full parameters after forward (ZeRO-3); false keeps them (ZeRO-2)"
        ),
        "cpu_offload": Option(False, "keep shards in the machine's memory"),
        "cast_parameters": Option(
            False, "gather parameters in the short format of a mixed precision, and compute in it throughout"
        ),
        "activation_checkpointing": Option(False, "recompute activations in backward"),
        "wrap": Option(None, "classes of the modules that are sharded each by itself", (str, list)),
        "min_num_params": Option(None, "wrap modules with at least so many parameters", (int,), least=1),
        "process_group_backend": Option(None, "carries collectives: gloo, nccl, ...", (str,)),
        "timeout_s": Option(1800.0, "longest wait in a collective, seconds", (float,), least=1),
    },
    precisions=frozenset(
        {
            "32-true",
            "64-true",
            "16-true",
            "bf16-true",
            "16-mixed",
            "bf16-mixed",
            "fp8",
            "transformer-engine",
            "transformer-engine-float16",
        }
    ),
    has_layer_sync=True,
    runtime="drivetrain.strategies.fsdp:FSDPRuntime",
)


@final
class HSDPStrategy(NamedSpec):
    """Hybrid sharded data parallel: ``strategy="hsdp(replicate=2)"``."""

    __slots__ = ()
    facts = _FACTS


FACTS = (_FACTS,)
