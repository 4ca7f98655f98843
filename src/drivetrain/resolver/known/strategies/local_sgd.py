"""Post-local SGD: ranks step alone and average their parameters now and then."""

from typing import final

from drivetrain.resolver.facts import Option, StrategyFacts
from drivetrain.resolver.spec import NamedSpec

_FACTS = StrategyFacts(
    name="local_sgd",
    title="ranks step alone, parameters averaged every period steps",
    axes=("dp_replicate",),
    options={
        "period": Option(8, "steps between averages", (int,), least=1),
        "warmup_steps": Option(100, "steps of plain ddp at the start", (int,), least=0),
        "group_size": Option(None, "neighbouring ranks that average more often", (int,), least=2),
        "group_period": Option(None, "steps between averages within a group", (int,), least=1),
        "gradient_as_bucket_view": Option(False, "gradients are views of the buckets, saves memory"),
        "broadcast_buffers": Option(True, "in the warm-up, rank 0's buffers reach all before each forward"),
        "bucket_cap_mb": Option(None, "size of a bucket, MiB", (int,), least=1),
        "process_group_backend": Option(None, "carries collectives: gloo, nccl, ...", (str,)),
        "timeout_s": Option(1800.0, "longest wait in a collective, seconds", (float,), least=1),
    },
    # A loss scale needs all ranks to leave out the same steps, and ranks that step alone do not ask.
    precisions=frozenset(
        {
            "32-true",
            "64-true",
            "16-true",
            "bf16-true",
            "bf16-mixed",
            "fp8",
            "transformer-engine",
            "transformer-engine-float16",
        }
    ),
    runtime="drivetrain.strategies.local_sgd:LocalSGDRuntime",
)


@final
class LocalSGDStrategy(NamedSpec):
    """Post-local SGD: ``strategy="local_sgd(period=8)"``."""

    __slots__ = ()
    facts = _FACTS


FACTS = (_FACTS,)
