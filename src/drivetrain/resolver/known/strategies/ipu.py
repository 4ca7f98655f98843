"""Replicas on IPUs, driven by one process through poptorch."""

from typing import final

from drivetrain.resolver.facts import StrategyFacts
from drivetrain.resolver.spec import NamedSpec

_FACTS = StrategyFacts(
    name="ipu",
    title="replicas on IPUs through poptorch",
    axes=("dp_replicate",),
    accelerators=frozenset({"ipu"}),
    packages=("poptorch",),
)


@final
class IPUStrategy(NamedSpec):
    """IPU replicas: ``strategy="ipu"``."""

    __slots__ = ()
    facts = _FACTS


FACTS = (_FACTS,)
