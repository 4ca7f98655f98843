"""Intel GPUs."""

from drivetrain.resolver.facts import AcceleratorFacts

FACTS = (
    AcceleratorFacts(
        name="xpu",
        title="Intel GPU",
        preference=30,
        is_gpu=True,
        process_group_backend="xccl",
    ),
)
