"""Data parallel with the optimizer's states sharded (ZeRO stage 1)."""

from typing import final

from drivetrain.resolver.facts import Option, StrategyFacts
from drivetrain.resolver.spec import NamedSpec

_FACTS = StrategyFacts(
    name="zero1",
    title="data parallel, optimizer states sharded",
    axes=("dp_replicate",),
    options={
        "find_unused_parameters": Option(False, "look for parameters without gradient each step"),
        "process_group_backend": Option(None, "carries collectives: gloo, nccl, ...", (str,)),
        "timeout_s": Option(1800.0, "longest wait in a collective, seconds", (float,), least=1),
    },
    has_layer_sync=True,
)


@final
class ZeRO1Strategy(NamedSpec):
    """Optimizer states sharded: ``strategy="zero1"``."""

    __slots__ = ()
    facts = _FACTS


FACTS = (_FACTS,)
