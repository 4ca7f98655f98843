"""Parameters in float32, arithmetic in a shorter format under autocast."""

from drivetrain.resolver.facts import PrecisionFacts

FACTS = (
    PrecisionFacts(
        "bf16-mixed",
        "float32 parameters, bfloat16 arithmetic",
        ("bf16",),
        runtime="drivetrain.precision.mixed:MixedPrecision",
    ),
    PrecisionFacts(
        "16-mixed",
        "float32 parameters, float16 arithmetic, scaled loss",
        ("16",),
        runtime="drivetrain.precision.mixed:MixedPrecision",
    ),
)
