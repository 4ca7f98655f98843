"""NVIDIA GPUs, and AMD GPUs under torch's ROCm build, which calls them cuda too."""

from drivetrain.resolver.facts import AcceleratorFacts

FACTS = (
    AcceleratorFacts(
        name="cuda",
        title="NVIDIA or AMD GPU",
        preference=40,
        is_gpu=True,
        process_group_backend="nccl",
        runtime="drivetrain.accelerators.cuda:CUDAAccelerator",
    ),
)
