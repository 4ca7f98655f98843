"""Data parallel through Horovod's allreduce."""

from typing import final

from drivetrain.resolver.facts import Option, StrategyFacts
from drivetrain.resolver.spec import NamedSpec

_FACTS = StrategyFacts(
    name="horovod",
    title="data parallel through Horovod",
    axes=("dp_replicate",),
    options={"compression": Option("none", "of gradients on the wire", (str,), ("none", "fp16"))},
    accelerators=frozenset({"cpu", "cuda"}),
    packages=("horovod",),
)


@final
class HorovodStrategy(NamedSpec):
    """Data parallel through Horovod: ``strategy="horovod"``."""

    __slots__ = ()
    facts = _FACTS


FACTS = (_FACTS,)
