"""Apple's GPU: one a machine, no collectives, no float64."""

from drivetrain.resolver.facts import AcceleratorFacts

FACTS = (
    AcceleratorFacts(
        name="mps",
        title="Apple GPU",
        preference=20,
        is_gpu=True,
        most=1,
        strategies=frozenset({"single"}),
        precisions=frozenset({"32-true", "16-true", "bf16-true", "16-mixed", "bf16-mixed"}),
        process_group_backend="none",
    ),
)
