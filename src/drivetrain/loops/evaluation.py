"""EvaluationLoop: validate and test, and the validation inside fit."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, final

import torch

from drivetrain.base.errors import DataError, ModuleError
from drivetrain.base.where import HERE
from drivetrain.data import Feed
from drivetrain.events import is_unused
from drivetrain.loops.context import Context, arguments_taken, evaluating, named_arguments
from drivetrain.loops.meters import metrics_unchanged
from drivetrain.loops.results import Part, Phase
from drivetrain.loops.transfer import mover
from drivetrain.modules.aside import Deaf
from drivetrain.strategies.together import STAND_IN, together

STEPS = {"validation": "validation_step", "test": "test_step"}


@final
class EvaluationLoop:
    """Every batch of every loader once, on one rank each; means are over all samples, exactly.

    Batch i of a loader runs on rank i % N, so its number and its contents are those of a run on one
    device. Ranks may have different numbers of batches; steps and batch hooks must not communicate.
    """

    def __init__(self, context: Context, feeds: list[Feed], kind: str) -> None:
        self._context, self._feeds, self._kind = context, feeds, kind
        self._step = evaluation_step(context, STEPS[kind], len(feeds))
        self._counts: dict[str, int] = {}
        """Batches of each loader, as loggers count them: the fit's, once all loaders were evaluated."""

    def read(self, feeds: list[Feed]) -> None:
        """Read these, before the first batch."""
        self._feeds = feeds

    def run(
        self, num_batches: int | None = None, when_done: Callable[[], None] | None = None
    ) -> list[dict[str, torch.Tensor]]:
        """Return the reduced values of each loader, on every rank.

        ``num_batches`` makes it a check of that many batches of each rank; ``when_done`` is called after
        the last batch, before the hooks that may save.

        Collectives:
            one reduction of what the steps logged and one for each hook after them; every rank must call.
        """
        context, kind = self._context, self._kind
        results = context.results
        whole: Phase = (f"{kind} epoch", 0)
        parts: dict[Phase, Part] = {}
        before = context.phase
        context.phase = before if before == "sanity" else kind
        with evaluating(context, kind):
            results.enter(whole)
            context.events(f"on_{kind}_start")
            context.events(f"on_{kind}_epoch_start")
            for number, feed in enumerate(self._feeds):
                phase: Phase = (kind, number)
                results.enter(phase)
                suffix = f"/dataloader_idx_{number}" if len(self._feeds) > 1 else ""
                context.in_batches = True
                parts[phase] = Part(suffix, ran=self._one(feed, number, num_batches, suffix))
                context.in_batches = False
            results.enter(whole)
            # Its hooks may read the values, and the torchmetrics objects that they are from.
            found = results.reduce_epoch(parts, keep=True)
            context.events(f"on_{kind}_epoch_end")
            found |= results.reduce_epoch({whole: Part()})
            results.forget(list(parts))
            context.progress.evaluated.update(self._counts)
            if when_done is not None:
                when_done()
            context.events.early(f"on_{kind}_end")
            late = results.reduce_epoch({whole: Part()})
            extra = {**found[whole], **late.get(whole, {})}
            # Before those that may save: a run that goes on from their checkpoint finds what was logged.
            self._write([*found.values(), extra])
            context.events.last(f"on_{kind}_end")
            last = results.reduce_epoch({whole: Part()}).get(whole, {})
            extra |= last
            self._write([last])
            results.leave()
        context.phase = before
        return [{**found[phase], **extra} for phase in parts]

    def _write(self, found: list[dict[str, torch.Tensor]]) -> None:
        everything = {name: value for values in found for name, value in values.items()}
        if self._context.phase != "sanity" and everything:
            self._context.write(lambda: self._context.results.for_loggers(everything))

    def _one(self, feed: Feed, number: int, num_batches: int | None, suffix: str) -> bool:
        context, kind, step = self._context, self._kind, self._step
        writes = bool(context.run.loggers) and context.strategy.ranks.is_zero and context.phase != "sanity"
        row = f"{kind}/{number}"
        before = last = context.progress.evaluated.get(row, 0)
        starts = context.events.calls(f"on_{kind}_batch_start")
        ends = context.events.calls(f"on_{kind}_batch_end")
        ran, move = False, mover(context, number)
        batches = context.watch.each(feed.evaluation(), f"[EvaluationLoop].{kind}_dataloader_next")
        for batch, share in together(iter(itertools.islice(batches, num_batches)), context.strategy):
            if share is STAND_IN:
                stand_in(context, step, move(batch), number)
                continue
            ran = True
            HERE.note(loader=number, batch=share.number)
            moved = move(batch)
            context.results.at_batch(share.number, share.size)
            for call in starts:
                call(moved, share.number, number)
            output = step(moved, share.number, number)
            for call in ends:
                call(output, moved, share.number, number)
            last = before + share.number + 1
            if writes and context.results.has_batch_values:
                context.write_batch(context.results.batch_values(suffix), last - 1)
        if writes:
            self._counts[row] = last
        if not ran and feed.num_batches is None and context.strategy.ranks.is_zero:
            raise nothing_read(kind, number)  # batch 0 is rank 0's; others may have none
        return ran


def stand_in(context: Context, step: Any, batch: Any, number: int) -> None:
    """Run a step for the other ranks' sake: what it logs, draws and counts is as if it had not been."""
    module, before = context.module, context.strategy.rng_state()
    recorder, module._recorder = module._recorder, Deaf()  # noqa: SLF001 - the run's side of it
    try:
        with metrics_unchanged(module):
            step(batch, 0, number)
    finally:
        module._recorder = recorder  # noqa: SLF001 - as above
        context.strategy.set_rng_state(before)


def nothing_read(kind: str, number: int) -> DataError:
    """Return the error of a loader that gave no batch to rank 0."""
    return DataError(
        "data.empty",
        f"the {kind} loader gave no batch",
        values={"loader": number},
        because="a run on nothing would look like one that succeeded",
        hint="check what the loader reads; an iterator can be read only once",
    )


def evaluation_step(context: Context, name: str, num_loaders: int) -> Any:
    """Return the module's step as a call with (batch, batch_idx, dataloader_idx), whatever it takes.

    Raises:
        ModuleError [module.no-step]: the module has no such step.
    """
    method = context.step(name)
    if is_unused(method):
        raise ModuleError(
            "module.no-step",
            f"{type(context.module).__name__} has no {name}",
            values={"class": type(context.module).__qualname__},
            because=f"{name} says what is done with a batch",
            hint=f"write def {name}(self, batch, batch_idx)",
        )
    count = arguments_taken(method, 3)
    if num_loaders == 1 and count > named_arguments(method):
        count = 2  # a decorator's *arguments take anything, and what is inside expects (batch, batch_idx)
    if num_loaders > 1 and count < 3:  # noqa: PLR2004 - batch, batch_idx, dataloader_idx
        raise ModuleError(
            "module.step-arguments",
            f"{type(context.module).__name__}.{name} does not take dataloader_idx",
            values={"class": type(context.module).__qualname__, "loaders": num_loaders},
            because="with several loaders a step is told which one the batch is from",
            hint=f"write def {name}(self, batch, batch_idx, dataloader_idx=0)",
        )
    run = context.strategy.evaluation_step

    def step(*arguments: Any) -> Any:
        return run(method, *arguments[:count])

    return context.watch.call(step, f"[Strategy]{type(context.strategy).__name__}.{name}")
