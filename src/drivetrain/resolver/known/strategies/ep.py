"""Expert parallel: experts are split over ranks, tokens exchanged."""

from typing import final

from drivetrain.resolver.facts import Option, StrategyFacts
from drivetrain.resolver.spec import NamedSpec

_FACTS = StrategyFacts(
    name="ep",
    title="expert parallel: experts split over ranks",
    axes=("ep",),
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
class EPStrategy(NamedSpec):
    """Expert parallel: experts split over ranks: ``strategy="ep(size=2)"``."""

    __slots__ = ()
    facts = _FACTS


FACTS = (_FACTS,)
