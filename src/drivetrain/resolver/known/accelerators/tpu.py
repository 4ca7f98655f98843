"""Google TPU: a node's cores are used one or all."""

from drivetrain.resolver.facts import AcceleratorFacts

FACTS = (
    AcceleratorFacts(
        name="tpu",
        title="Google TPU",
        preference=70,
        whole_or_one=True,
        strategies=frozenset({"single", "xla", "xla_fsdp"}),
        precisions=frozenset({"32-true", "16-true", "bf16-true"}),
        default_strategy="xla",
        process_group_backend="xla",
    ),
)
