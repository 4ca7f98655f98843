"""Whether two parts fit: neither excludes the other."""

from __future__ import annotations

from drivetrain.resolver.facts import AcceleratorFacts, PrecisionFacts, StrategyFacts


def strategy_fits(strategy: StrategyFacts, accelerator: AcceleratorFacts) -> bool:
    """Whether a strategy runs on an accelerator."""
    return (strategy.accelerators is None or accelerator.name in strategy.accelerators) and (
        accelerator.strategies is None or strategy.name in accelerator.strategies
    )


def precision_fits(precision: PrecisionFacts, accelerator: AcceleratorFacts) -> bool:
    """Whether an accelerator computes in a precision."""
    return (precision.accelerators is None or accelerator.name in precision.accelerators) and (
        accelerator.precisions is None or precision.name in accelerator.precisions
    )


def precision_fits_strategy(precision: PrecisionFacts, strategy: StrategyFacts) -> bool:
    """Whether a strategy allows a precision."""
    return (precision.strategies is None or strategy.name in precision.strategies) and (
        strategy.precisions is None or precision.name in strategy.precisions
    )
