"""Fully sharded data parallel: parameters, gradients and optimizer states sharded."""

from typing import final

from drivetrain.resolver.facts import Option, StrategyFacts
from drivetrain.resolver.spec import NamedSpec

_FACTS = StrategyFacts(
    name="fsdp",
    title="fully sharded data parallel (torch's fully_shard)",
    axes=("dp_shard",),
    role="data",
    options={
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
class FSDPStrategy(NamedSpec):
    """Fully sharded data parallel: ``strategy="fsdp"``."""

    __slots__ = ()
    facts = _FACTS


FACTS = (_FACTS,)
