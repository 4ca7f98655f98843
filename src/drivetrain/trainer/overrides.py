"""Flags for one call: ``trainer.test(model, strategy="single")``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from drivetrain.base.errors import PlanError, TrainerError
from drivetrain.base.origin import AUTO, OFF, ONE
from drivetrain.base.text import listed, nearest
from drivetrain.resolver.front import plan_for
from drivetrain.resolver.resolve import Resolution

FLAGS: dict[str, Any] = {
    "accelerator": AUTO,
    "devices": AUTO,
    "num_nodes": ONE,
    "strategy": AUTO,
    "launcher": AUTO,
    "environment": AUTO,
    "precision": None,
    "plugins": None,
    "sync_batchnorm": OFF,
}
"""The flags that make a plan, with what each is when nothing is said."""


def plan_call(flags: Mapping[str, Any], overrides: Mapping[str, Any], verb: str) -> Resolution:
    """Resolve the Trainer's flags with those of one call in their place.

    A flag of the Trainer's that the call's flags contradict (``devices=4`` and ``strategy="single"``) does
    not hold for the call. Flags that contradict each other within the call are an error.

    Raises:
        PlanError: they describe no run.
        TrainerError [trainer.unknown-argument]: what is overridden is no flag of the plan.
    """
    for name, value in overrides.items():
        if name not in FLAGS:
            raise _unknown(name, value, verb)
    wanted = {**flags, **overrides}
    while True:
        try:
            return plan_for(wanted, caller=f"trainer.{verb}")
        except PlanError as error:  # noqa: PERF203 - a plan is made a few times a run
            named = {name for conflict in error.conflicts for name in conflict.flags}
            said = [name for name in named if name in flags and wanted[name] is not FLAGS.get(name)]
            yielding = [name for name in said if name not in overrides]
            if not yielding or not named & set(overrides):
                raise
            wanted |= {name: FLAGS[name] for name in yielding if name in FLAGS}
            for name in yielding:
                if name not in FLAGS:  # an old spelling
                    del wanted[name]


def _unknown(name: str, value: object, verb: str) -> TrainerError:
    close = nearest(name, [*FLAGS])
    return TrainerError(
        "trainer.unknown-argument",
        f"trainer.{verb} has no argument {name!r}" + (f", did you mean {close!r}?" if close else ""),
        values={name: value},
        because=f"for one call these can be said anew: {listed([*FLAGS])}",
        hint=f"write {close}=..." if close else "say it to the Trainer",
    )
