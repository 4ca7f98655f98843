"""Tensor parallel: layers are split over ranks."""

from typing import final

from drivetrain.resolver.facts import Option, StrategyFacts
from drivetrain.resolver.spec import NamedSpec

_FACTS = StrategyFacts(
    name="tp",
    title="tensor parallel: layers split over ranks",
    axes=("tp",),
    role="model",
    options={
        "size": Option(
            None, "number of ranks on this axis; the rest of the world when not said", (int,), least=1
        ),
        "sequence_parallel": Option(False, "split norms and dropout along the sequence too"),
        "process_group_backend": Option(None, "carries collectives: gloo, nccl, ...", (str,)),
        "timeout_s": Option(1800.0, "longest wait in a collective, seconds", (float,), least=1),
    },
    checkpoint_io="sharded",
)


@final
class TPStrategy(NamedSpec):
    """Tensor parallel: layers split over ranks: ``strategy="tp(size=2)"``."""

    __slots__ = ()
    facts = _FACTS


FACTS = (_FACTS,)
