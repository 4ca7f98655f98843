"""Context parallel: the sequence is split over ranks."""

from typing import final

from drivetrain.resolver.facts import Option, StrategyFacts
from drivetrain.resolver.spec import NamedSpec

_FACTS = StrategyFacts(
    name="cp",
    title="context parallel: the sequence split over ranks",
    axes=("cp",),
    role="model",
    options={
        "size": Option(
            None, "number of ranks on this axis; the rest of the world when not said", (int,), least=1
        ),
        "process_group_backend": Option(None, "carries collectives: gloo, nccl, ...", (str,)),
        "timeout_s": Option(1800.0, "longest wait in a collective, seconds", (float,), least=1),
    },
    checkpoint_io="sharded",
)


@final
class CPStrategy(NamedSpec):
    """Context parallel: the sequence split over ranks: ``strategy="cp(size=2)"``."""

    __slots__ = ()
    facts = _FACTS


FACTS = (_FACTS,)
