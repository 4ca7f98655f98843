"""Data parallel with the optimizer's states sharded (ZeRO stage 1)."""

from typing import final

from drivetrain.resolver.facts import Option, StrategyFacts
from drivetrain.resolver.spec import NamedSpec

_FACTS = StrategyFacts(
    name="zero1",
    title="data parallel, optimizer states sharded",
    axes=("dp_replicate",),
    options={
        "find_unused_parameters": Option(
            False,
            "look for parameters without gradient each step; auto: if the first step has any",
            (bool, str),
            choices=(False, True, "auto"),
        ),
        "static_graph": Option(False, "the same parameters are used every step"),
        "gradient_as_bucket_view": Option(False, "gradients are views of the buckets, saves memory"),
        "broadcast_buffers": Option(True, "rank 0's buffers reach all before each forward"),
        "bucket_cap_mb": Option(None, "size of a bucket, MiB", (int,), least=1),
        "comm_hook": Option(
            None, "how gradients travel: fp16, bf16, powersgd, or package.module:function", (str,)
        ),
        "powersgd_rank": Option(1, "columns of the factors that powersgd sends", (int,), least=1),
        "powersgd_start": Option(1000, "steps before powersgd begins", (int,), least=0),
        "process_group_backend": Option(None, "carries collectives: gloo, nccl, ...", (str,)),
        "timeout_s": Option(1800.0, "longest wait in a collective, seconds", (float,), least=1),
    },
    has_layer_sync=True,
    runtime="drivetrain.strategies.zero1:ZeRO1Runtime",
)


@final
class ZeRO1Strategy(NamedSpec):
    """Optimizer states sharded: ``strategy="zero1"``."""

    __slots__ = ()
    facts = _FACTS


FACTS = (_FACTS,)
