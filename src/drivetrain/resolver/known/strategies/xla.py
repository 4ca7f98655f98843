"""Data parallel on torch_xla."""

from typing import final

from drivetrain.resolver.facts import Option, StrategyFacts
from drivetrain.resolver.spec import NamedSpec

_FACTS = StrategyFacts(
    name="xla",
    title="data parallel on torch_xla",
    axes=("dp_replicate",),
    options={"debug": Option(False, "print torch_xla's metrics report")},
    accelerators=frozenset({"tpu"}),
    launchers=frozenset({"xla", "none", "external"}),
    environments=frozenset({"xla"}),
    packages=("torch_xla",),
)


@final
class XLAStrategy(NamedSpec):
    """Data parallel on torch_xla: ``strategy="xla"``."""

    __slots__ = ()
    facts = _FACTS


FACTS = (_FACTS,)
