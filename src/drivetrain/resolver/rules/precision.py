"""The number format can be computed in."""

from __future__ import annotations

from collections.abc import Iterator

from drivetrain.base.errors import Conflict
from drivetrain.base.text import listed
from drivetrain.resolver.choose import is_there
from drivetrain.resolver.fill import Draft
from drivetrain.resolver.fits import precision_fits, precision_fits_strategy

_NEAREST: tuple[object, ...] = ("bf16-mixed", "bf16-true", "16-mixed", "32-true")


def accelerator_computes_in_it(draft: Draft) -> Iterator[Conflict]:
    """plan.precision-accelerator: nothing is substituted, what cannot be computed is refused."""
    precision, accelerator = draft.catalogue.precisions[draft.precision.value], draft.accelerator_facts
    if precision_fits(precision, accelerator):
        return
    able = [name for name, facts in draft.catalogue.precisions.items() if precision_fits(facts, accelerator)]
    others = [
        facts.name
        for facts in draft.catalogue.accelerator_order
        if precision_fits(precision, facts) and is_there(draft.machine, facts)
    ]
    shown = {
        draft.name("precision"): draft.source("precision"),
        draft.name("accelerator"): draft.source("accelerator"),
    }
    message = f"precision {precision.name!r} cannot run on accelerator {accelerator.name!r}"
    fixes: list[dict[str, object]] = [
        {"precision": name} for name in [name for name in _NEAREST if name in able][:2]
    ]
    fixes += [{"accelerator": name} for name in others[:1]]
    yield Conflict(
        "plan.precision-accelerator",
        message,
        shown,
        f"{accelerator.name!r} computes in: {listed(able)}",
        tuple(fixes),
    )


def strategy_allows_it(draft: Draft) -> Iterator[Conflict]:
    """plan.precision-strategy: the strategy can keep its promises in this format."""
    precision = draft.catalogue.precisions[draft.precision.value]
    for member in draft.strategy_facts:
        if precision_fits_strategy(precision, member):
            continue
        table = draft.catalogue.precisions
        able = [name for name, facts in table.items() if precision_fits_strategy(facts, member)]
        shown = {
            draft.name("precision"): draft.source("precision"),
            draft.name("strategy"): draft.source("strategy"),
        }
        message = f"precision {precision.name!r} cannot run under strategy {member.name!r}"
        instead: list[dict[str, object]] = [
            {"precision": name} for name in [name for name in _NEAREST if name in able][:2]
        ]
        because = f"{member.name!r} runs in: {listed(able)}"
        yield Conflict("plan.precision-strategy", message, shown, because, (*instead, {"strategy": "auto"}))
