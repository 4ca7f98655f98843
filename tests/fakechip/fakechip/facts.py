"""What there is, without torch: so that a plan can be made where there is none."""

import os

import drivetrain as dt

CHIP = dt.AcceleratorFacts(
    "fakechip",
    "four pretended devices",
    preference=5,
    count=lambda: int(os.environ.get("FAKECHIPS", "0")),
    default_strategy="mean",
    process_group_backend="gloo",
    runtime="fakechip.chip:FakeChip",
)


class MeanStrategy(dt.NamedSpec):
    """Data parallel with one all_reduce a step: ``strategy="mean(rounds=2)"``."""

    __slots__ = ()
    facts = dt.StrategyFacts(
        "mean",
        "data parallel, all gradients averaged at once",
        axes=("dp_replicate",),
        role="data",
        options={"rounds": dt.Option(1, "how often gradients are averaged; once is enough", (int,), least=1)},
        runtime="fakechip.mean:MeanRuntime",
    )


GRID = dt.PrecisionFacts(
    "grid", "parameters on a grid of 1/1024", ("grid-true",), runtime="fakechip.grid:GridPrecision"
)
