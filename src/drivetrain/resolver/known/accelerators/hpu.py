"""Intel Gaudi."""

from drivetrain.resolver.facts import AcceleratorFacts

FACTS = (
    AcceleratorFacts(
        name="hpu",
        title="Intel Gaudi",
        preference=50,
        strategies=frozenset({"single", "ddp", "fsdp", "deepspeed"}),
        precisions=frozenset({"32-true", "bf16-true", "bf16-mixed"}),
        process_group_backend="hccl",
    ),
)
