"""One device, no collectives."""

from typing import final

from drivetrain.resolver.facts import StrategyFacts
from drivetrain.resolver.spec import NamedSpec

_FACTS = StrategyFacts(
    name="single",
    title="one device, no collectives",
    runtime="drivetrain.strategies.single:SingleRuntime",
)


@final
class SingleStrategy(NamedSpec):
    """One device: ``strategy="single"``."""

    __slots__ = ()
    facts = _FACTS


FACTS = (_FACTS,)
