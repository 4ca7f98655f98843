"""One format for parameters, gradients and arithmetic."""

from drivetrain.resolver.facts import PrecisionFacts

FACTS = (
    PrecisionFacts(
        "32-true", "float32 throughout", ("32",), runtime="drivetrain.precision.true:TruePrecision"
    ),
    PrecisionFacts(
        "64-true", "float64 throughout", ("64",), runtime="drivetrain.precision.true:TruePrecision"
    ),
    PrecisionFacts(
        "16-true", "float16 parameters and arithmetic", runtime="drivetrain.precision.true:TruePrecision"
    ),
    PrecisionFacts(
        "bf16-true",
        "bfloat16 parameters and arithmetic",
        runtime="drivetrain.precision.true:TruePrecision",
    ),
)
