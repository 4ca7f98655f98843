"""Graphcore IPU."""

from drivetrain.resolver.facts import AcceleratorFacts

FACTS = (
    AcceleratorFacts(
        name="ipu",
        title="Graphcore IPU",
        preference=60,
        strategies=frozenset({"single", "ipu"}),
        precisions=frozenset({"32-true", "16-true"}),
        default_strategy="ipu",
        process_group_backend="none",
    ),
)
