"""The rules of a plan: one rule is one function, one code and one page in docs/errors.

A rule looks at the filled draft and yields conflicts as data. It names the flags that it is about;
where one of them could not be read, the rule is skipped, since that is reported already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from drivetrain.base.errors import Conflict
from drivetrain.resolver.fill import Draft
from drivetrain.resolver.rules import devices, environment, hardware, launcher, layout, precision, strategy

Rule: TypeAlias = Callable[[Draft], Iterator[Conflict]]

RULES: tuple[tuple[frozenset[str], Rule], ...] = tuple(
    (frozenset(flags.split()), rule)
    for flags, rule in (
        ("accelerator", hardware.accelerator_is_there),
        ("accelerator devices", devices.devices_are_there),
        ("accelerator devices", devices.processes_are_counted),
        ("accelerator devices", devices.devices_are_one_or_all),
        ("accelerator strategy", strategy.strategy_runs_on_accelerator),
        ("accelerator strategy", strategy.backend_fits),
        ("strategy devices num_nodes accelerator", strategy.strategy_spans_world),
        ("strategy devices num_nodes accelerator", layout.axes_fill_world),
        ("strategy", layout.one_axis_is_open),
        ("strategy accelerator sync_batchnorm layer_sync", strategy.layers_can_be_synchronised),
        ("accelerator precision", precision.accelerator_computes_in_it),
        ("strategy precision", precision.strategy_allows_it),
        ("environment devices num_nodes accelerator", environment.ranks_fit_world),
        ("environment strategy", environment.strategy_knows_environment),
        ("environment accelerator", environment.environment_fits_accelerator),
        ("launcher devices num_nodes accelerator", launcher.launcher_starts_the_world),
        ("launcher environment", launcher.launcher_fits_environment),
        ("launcher", launcher.machine_can_fork),
        ("launcher accelerator strategy", launcher.launcher_fits_strategy),
    )
)


def conflicts(draft: Draft) -> list[Conflict]:
    """Return every conflict of a draft: those found while reading, and those of the rules."""
    found = list(draft.said.conflicts)
    for flags, rule in RULES:
        if not flags & draft.broken:
            found += rule(draft)
    return found
