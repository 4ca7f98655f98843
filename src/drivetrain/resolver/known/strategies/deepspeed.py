"""DeepSpeed's ZeRO, stages 0 to 3."""

from typing import final

from drivetrain.resolver.facts import Option, StrategyFacts
from drivetrain.resolver.spec import NamedSpec

_ALL_SHARDED = 3

_FACTS = StrategyFacts(
    name="deepspeed",
    title="DeepSpeed ZeRO",
    axes=("dp_shard",),
    # Stages 0 to 2 shard no parameters: every rank holds the whole model.
    layout=lambda options, _: {"dp_shard" if options.get("stage") == _ALL_SHARDED else "dp_replicate": None},
    options={
        "stage": Option(
            2, "what is sharded: 0 nothing, 1 optimizer, 2 + gradients, 3 + parameters", (int,), (0, 1, 2, 3)
        ),
        "offload_optimizer": Option(None, "where optimizer states live", (str,), ("cpu", "nvme")),
        "offload_parameters": Option(None, "where parameters live (stage 3)", (str,), ("cpu", "nvme")),
        "nvme_path": Option(None, "folder of the NVMe offload", (str,)),
        "config": Option(None, "DeepSpeed's own config, or the path of one", (dict, str)),
        "timeout_s": Option(1800.0, "longest wait in a collective, seconds", (float,), least=1),
    },
    accelerators=frozenset({"cpu", "cuda", "xpu", "hpu"}),
    precisions=frozenset({"32-true", "16-true", "bf16-true", "16-mixed", "bf16-mixed"}),
    packages=("deepspeed",),
    has_layer_sync=True,
    checkpoint_io="sharded",
)


@final
class DeepSpeedStrategy(NamedSpec):
    """DeepSpeed ZeRO: ``strategy="deepspeed(stage=3)"``."""

    __slots__ = ()
    facts = _FACTS


FACTS = (_FACTS,)
