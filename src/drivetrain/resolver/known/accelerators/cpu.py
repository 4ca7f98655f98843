"""The processor: always there, runs everything."""

from drivetrain.resolver.facts import AcceleratorFacts

FACTS = (
    AcceleratorFacts(
        name="cpu",
        title="the processor",
        preference=0,
        counts_processes=True,
        process_group_backend="gloo",
        runtime="drivetrain.accelerators.cpu:CPUAccelerator",
    ),
)
