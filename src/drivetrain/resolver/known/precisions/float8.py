"""8-bit floats for matrix products, through torchao."""

from drivetrain.resolver.facts import PrecisionFacts

FACTS = (
    PrecisionFacts(
        "fp8",
        "float8 matrix products through torchao",
        ("float8",),
        accelerators=frozenset({"cpu", "cuda"}),
        strategies=frozenset({"single", "ddp", "zero1", "local_sgd", "fsdp", "hsdp", "tp"}),
        packages=("torchao",),
        runtime="drivetrain.precision.float8:Float8Precision",
    ),
)
