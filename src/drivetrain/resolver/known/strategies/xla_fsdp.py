"""Fully sharded data parallel on torch_xla."""

from typing import final

from drivetrain.resolver.facts import StrategyFacts
from drivetrain.resolver.spec import NamedSpec

_FACTS = StrategyFacts(
    name="xla_fsdp",
    title="fully sharded data parallel on torch_xla",
    axes=("dp_shard",),
    accelerators=frozenset({"tpu"}),
    launchers=frozenset({"xla", "none", "external"}),
    environments=frozenset({"xla"}),
    packages=("torch_xla",),
    checkpoint_io="sharded",
)


@final
class XLAFSDPStrategy(NamedSpec):
    """Sharded on torch_xla: ``strategy="xla_fsdp"``."""

    __slots__ = ()
    facts = _FACTS


FACTS = (_FACTS,)
