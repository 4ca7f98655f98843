"""Pipeline parallel: the model is cut into stages."""

from typing import final

from drivetrain.resolver.facts import Option, StrategyFacts
from drivetrain.resolver.spec import NamedSpec

_FACTS = StrategyFacts(
    name="pp",
    title="pipeline parallel: layers in stages",
    axes=("pp",),
    role="model",
    options={
        "size": Option(
            None, "number of ranks on this axis; the rest of the world when not said", (int,), least=1
        ),
        "schedule": Option(
            "1f1b", "order of micro-batches", (str,), ("gpipe", "1f1b", "interleaved", "zero_bubble")
        ),
        "num_microbatches": Option(
            None, "micro-batches a step; one per stage when not said", (int,), least=1
        ),
        "process_group_backend": Option(None, "carries collectives: gloo, nccl, ...", (str,)),
        "timeout_s": Option(1800.0, "longest wait in a collective, seconds", (float,), least=1),
    },
    checkpoint_io="sharded",
)


@final
class PPStrategy(NamedSpec):
    """Pipeline parallel: layers in stages: ``strategy="pp(size=2)"``."""

    __slots__ = ()
    facts = _FACTS


FACTS = (_FACTS,)
