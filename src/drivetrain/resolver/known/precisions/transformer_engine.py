"""8-bit floats through NVIDIA's transformer-engine."""

from drivetrain.resolver.facts import PrecisionFacts

FACTS = (
    PrecisionFacts(
        "transformer-engine",
        "float8 through transformer-engine, bfloat16 elsewhere",
        accelerators=frozenset({"cuda"}),
        strategies=frozenset({"single", "ddp", "fsdp", "hsdp"}),
        packages=("transformer-engine",),
    ),
    PrecisionFacts(
        "transformer-engine-float16",
        "float8 through transformer-engine, float16 elsewhere",
        accelerators=frozenset({"cuda"}),
        strategies=frozenset({"single", "ddp", "fsdp", "hsdp"}),
        packages=("transformer-engine",),
    ),
)
