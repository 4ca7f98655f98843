"""Triggers: when something that is done every so often is due."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import timedelta
from typing import final

from drivetrain.base.quantity import UNITS, Quantity, QuantityProblem, Unit, parse
from drivetrain.callbacks.clock import SharedClock
from drivetrain.callbacks.refusal import bad_argument
from drivetrain.modules import Module, Run
from drivetrain.modules.tokens import check_counts_tokens


@final
class Triggers:
    """Intervals in steps, samples, tokens, epochs, parts of epochs and time; due when one of them is.

    A counter may jump over a multiple (several optimizer steps a batch, batches of many samples); it is due
    once it has passed one. Nothing of it is in a checkpoint: where a counter stands says what is due next.
    """

    def __init__(self, owner: str, named: Mapping[str, Quantity]) -> None:
        self._owner, self._named = owner, dict(named)
        intervals = [*named.values()]
        whole = [one for one in intervals if one.unit == "epochs" and one.value == int(one.value)]
        self._epochs = [int(one.value) for one in whole]
        self._parts = [one.exact for one in intervals if one.unit == "epochs" and one not in whole]
        self._steps = [int(one.value) for one in intervals if one.unit == "steps"]
        self._samples = [int(one.value) for one in intervals if one.unit == "samples"]
        self._tokens = [int(one.value) for one in intervals if one.unit == "tokens"]
        self._clocks = [SharedClock(float(one.value)) for one in intervals if one.unit == "seconds"]
        self._step = self._sample = self._token = 0

    @property
    def within_epochs(self) -> bool:
        """Whether `after_batch` can ever be true."""
        return bool(self._parts or self._steps or self._samples or self._tokens or self._clocks)

    def begin(self, trainer: Run, module: Module) -> None:
        """Start a fit, where its counters stand.

        Raises:
            ModuleError [module.tokens]: an interval is in tokens, and the module counts none.
        """
        for name, interval in self._named.items():
            if interval.unit == "tokens":
                check_counts_tokens(module, f"{self._owner}({name}=...)", interval)
        self._step, self._sample, self._token = trainer.global_step, trainer.samples_seen, trainer.tokens_seen
        for clock in self._clocks:
            clock.restart()

    def after_batch(self, trainer: Run, batch_idx: int) -> bool:
        """Say whether an interval ended with this batch.

        Collectives:
            with an interval in time, those of `SharedClock.is_over`; every rank must call.
        """
        step, before = trainer.global_step, self._step
        is_due = any(step // every > before // every for every in self._steps)
        self._step = step
        if self._samples:
            sample, before = trainer.samples_seen, self._sample
            is_due |= any(sample // every > before // every for every in self._samples)
            self._sample = sample
        if self._tokens:
            token, before = trainer.tokens_seen, self._token
            is_due |= any(token // every > before // every for every in self._tokens)
            self._token = token
        if self._parts:
            is_due |= self._passes_part(trainer, batch_idx)
        # Each clock is asked, so that all ranks ask the same ones.
        return any([clock.is_over(trainer) for clock in self._clocks]) or is_due  # noqa: C419 - as said above

    def after_epoch(self, trainer: Run) -> bool:
        """Say whether an interval in whole epochs ends with this one."""
        return any((trainer.current_epoch + 1) % every == 0 for every in self._epochs)

    def _passes_part(self, trainer: Run, batch_idx: int) -> bool:
        total = trainer.num_training_batches
        if total is None or total == math.inf:
            name, part = next(pair for pair in self._named.items() if pair[1].exact in self._parts)
            raise bad_argument(
                self._owner,
                name,
                str(part),
                "whole epochs where the training loader has no length",
                "give the loader a length, or count steps: '500 steps'",
            )
        place = trainer.current_epoch * total + batch_idx
        return any((place + 1) // (part * total) > place // (part * total) for part in self._parts)


def read_interval(owner: object, name: str, value: object, unit: Unit) -> Quantity | None:
    """Return an interval: a plain number in ``unit``, or a text with a unit; None for None and 0.

    Raises:
        ModuleError [callback.bad-argument]: it is neither, or in a unit that runs do not count.
    """
    if value is None or (type(value) is int and value == 0):
        return None
    units: tuple[Unit, ...] = ("seconds",) if unit == "seconds" else UNITS
    plain = f"an int of 1 or more ({unit})" if unit != "seconds" else "a timedelta"
    because = f"{plain}, or a text with a unit, or None for never"
    if type(value) is int and unit != "seconds":
        if value < 1:
            raise bad_argument(owner, name, value, because)
        return Quantity(unit, value)
    if not isinstance(value, (str, Quantity, timedelta)):
        raise bad_argument(owner, name, value, because)
    try:
        return parse(value, units)
    except QuantityProblem as problem:
        raise bad_argument(
            owner, name, value, f"{because}: {problem}; {problem.because}", problem.hint
        ) from problem
