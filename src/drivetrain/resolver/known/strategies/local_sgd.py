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
        "process_group_backend": Option(None, "carries collectives: gloo, nccl, ...", (str,)),
        "timeout_s": Option(1800.0, "longest wait in a collective, seconds", (float,), least=1),
    },
    has_layer_sync=True,
)


@final
class LocalSGDStrategy(NamedSpec):
    """Post-local SGD: ``strategy="local_sgd(period=8)"``."""

    __slots__ = ()
    facts = _FACTS


FACTS = (_FACTS,)
