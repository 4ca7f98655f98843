"""FitLoop: epochs and steps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, final

import torch

from drivetrain.base.errors import DataError, ModuleError
from drivetrain.base.where import HERE
from drivetrain.data import Feed, Share
from drivetrain.events import is_unused
from drivetrain.loops import checkpoint as checkpoints
from drivetrain.loops.context import Context, arguments_taken
from drivetrain.loops.evaluation import EvaluationLoop
from drivetrain.loops.optimization import read_optimizers, step_schedulers
from drivetrain.loops.output import read_loss
from drivetrain.loops.results import TRAIN_EPOCH, TRAIN_STEP, Part


@dataclass(frozen=True)
class Bounds:
    """When a fit ends, and how often it validates; -1 is no bound."""

    max_epochs: int = -1
    min_epochs: int = 0
    max_steps: int = -1
    min_steps: int = 0
    check_val_every_n_epoch: int = 1


@final
class FitLoop:
    """Trains; one object a fit and rank.

    An epoch: its steps, its validation, on_train_epoch_end, epoch schedulers, then the callbacks
    that save. A checkpoint is exact after a step's hooks and after an epoch's.
    """

    def __init__(
        self, context: Context, feed: Feed, validation: EvaluationLoop | None, bounds: Bounds
    ) -> None:
        self._context, self._feed, self._validation, self._bounds = context, feed, validation, bounds
        self._results, self._strategy, self._progress = context.results, context.strategy, context.progress
        self._world_size = context.strategy.ranks.world_size
        self._num_arguments = arguments_taken(context.module.training_step, 2)
        self._has_step_schedulers = False
        self.stopped_early = False

    def run(self, checkpoint: Mapping[str, Any] | None, path: object) -> None:
        """Train from the beginning, or from where the checkpoint stood."""
        context, progress = self._context, self._progress
        context.phase = "train"
        self._setup(checkpoint, path)
        context.events("on_fit_start")
        self._results.enter(TRAIN_EPOCH)
        context.events("on_train_start")
        self._strategy.spread_rng()
        if checkpoint is not None:
            checkpoints.restore_rng(context, checkpoint)
        while not self._is_over():
            self._epoch()
            if progress.is_done:
                progress.next_epoch()
        context.events("on_train_end")
        context.events("on_fit_end")
        self._strategy.optimizers_to_device(context.optimizers, torch.device("cpu"))
        checkpoints.gather_ranks(context)

    def _setup(self, checkpoint: Mapping[str, Any] | None, path: object) -> None:
        context, module = self._context, self._context.module
        for name, what in (
            ("training_step", "the loss of a batch"),
            ("configure_optimizers", "the optimizer"),
        ):
            if is_unused(getattr(module, name)):
                raise ModuleError(
                    "module.no-step",
                    f"{type(module).__name__} has no {name}",
                    values={"class": type(module).__qualname__},
                    because=f"fit needs {what}",
                    hint=f"write def {name}(self{', batch, batch_idx' if name == 'training_step' else ''})",
                )
        if not module.training:
            module.train()
        self._strategy.setup(module, module.training_step)
        if checkpoint is not None:
            checkpoints.restore_weights(context, checkpoint, path)
        context.optimizers, context.schedulers = read_optimizers(module)
        if checkpoint is not None:
            checkpoints.restore_training(context, checkpoint, path)
            self._strategy.optimizers_to_device(context.optimizers, self._strategy.device)
        context.first_step = self._progress.global_step
        self._has_step_schedulers = any(one.interval == "step" for one in context.schedulers)

    def _is_over(self) -> bool:
        progress, bounds = self._progress, self._bounds
        if bounds.max_epochs >= 0 and progress.epoch >= bounds.max_epochs:
            return True
        if 0 <= bounds.max_steps <= progress.global_step or self._feed.num_batches == 0:
            return True
        return self._stops()

    def _stops(self) -> bool:
        """Whether somebody asked to stop and the bounds allow it."""
        progress, bounds = self._progress, self._bounds
        wanted = bool(self._context.run.should_stop)
        if self._world_size > 1:
            word = torch.tensor([int(wanted)], device=self._strategy.device)
            wanted = bool(self._strategy.collectives.all_reduce(word, "max").item())
        if not wanted or progress.epoch < bounds.min_epochs or progress.global_step < bounds.min_steps:
            return False
        self._context.run.should_stop = self.stopped_early = True
        return True

    def _epoch(self) -> None:
        context, progress, results = self._context, self._progress, self._results
        HERE.note(stage="fit", epoch=progress.epoch)
        if not progress.is_started:
            results.enter(TRAIN_EPOCH)
            context.events("on_train_epoch_start")
            progress.is_started = True
        if not progress.is_trained:
            results.enter(TRAIN_STEP, in_step=True)
            progress.is_trained = self._steps()
        is_whole = progress.is_trained
        is_due = (progress.epoch + 1) % self._bounds.check_val_every_n_epoch == 0
        if self._validation is not None and is_due and not progress.is_validated:
            HERE.note(stage="validate")
            self._validation.run()
            HERE.note(stage="fit")
            progress.is_validated = is_whole
        results.reduce_epoch({TRAIN_STEP: Part()}, keep=not is_whole)
        results.enter(TRAIN_EPOCH)
        context.events.early("on_train_epoch_end")
        results.reduce_epoch({TRAIN_EPOCH: Part()})
        if is_whole:
            step_schedulers(context.schedulers, "epoch", progress.epoch + 1, results.metrics)
        progress.is_done = is_whole
        context.events.last("on_train_epoch_end")

    def _steps(self) -> bool:
        """Take the steps of an epoch that are left; return whether the epoch came to its end.

        This is the hot path: hooks were looked up before, and nothing reads a tensor's value.
        """
        context, progress, results, strategy = self._context, self._progress, self._results, self._strategy
        starts = context.events.calls("on_train_batch_start")
        ends = context.events.calls("on_train_batch_end")
        every, world_size, max_steps = context.log_every_n_steps, self._world_size, self._bounds.max_steps
        take = self._step()
        share = None
        for batch, share in self._batches():
            index = progress.steps
            HERE.note(step=progress.global_step, batch=share.number)
            moved = strategy.batch_to_device(batch)
            results.at_batch(progress.global_step, share.size)
            if starts and any([call(moved, index) == -1 for call in starts]):  # noqa: C419 - every one is called
                return True
            output = take(moved, index, share)
            progress.batches, progress.steps = share.consumed, index + 1
            is_last = max_steps == progress.global_step or share.consumed == self._feed.num_batches
            is_logging = progress.global_step % every == 0 or is_last
            if is_logging and world_size > 1:
                results.reduce_step()
            for call in ends:
                call(output, moved, index)
            if is_last or ((is_logging or world_size == 1) and self._wants_stop()):
                return share.consumed == self._feed.num_batches
        if share is None and not progress.batches:
            raise _nothing_read(self._feed)
        return True

    def _batches(self) -> Iterator[tuple[Any, Share]]:
        """Return this epoch's batches from where the run stands, without a trace in the random state."""
        context, progress, strategy = self._context, self._progress, self._strategy
        if not self._feed.replays:
            return self._feed.training(progress.epoch, progress.batches)
        now = strategy.rng_state()
        if progress.batches == 0 or context.epoch_rng is None:
            context.epoch_rng = now
            return self._feed.training(progress.epoch, progress.batches)
        strategy.set_rng_state(context.epoch_rng)
        batches = self._feed.training(progress.epoch, progress.batches)
        strategy.set_rng_state(now)
        return batches

    def _wants_stop(self) -> bool:
        # One rank needs no talk about it, so the common case is one attribute.
        return (self._world_size > 1 or bool(self._context.run.should_stop)) and self._stops()

    def _step(self) -> Any:
        """Return the function that takes one step, with everything that it uses at hand."""
        context, progress, strategy, world_size = (
            self._context,
            self._progress,
            self._strategy,
            self._world_size,
        )
        optimizer, module, num_arguments = context.optimizers[0], context.module, self._num_arguments
        calls = context.events.calls
        before_zero, before_backward, after_backward, before_step = map(
            calls,
            ("on_before_zero_grad", "on_before_backward", "on_after_backward", "on_before_optimizer_step"),
        )
        training_step, has_step_schedulers = strategy.training_step, self._has_step_schedulers

        def take(batch: Any, index: int, share: Share) -> Any:
            output = training_step(batch, index) if num_arguments > 1 else training_step(batch)
            loss = read_loss(output, module, world_size)
            if loss is None:
                return None
            if share.weight != 1.0:
                loss = loss * share.weight
            for call in before_zero:
                call(optimizer)
            optimizer.zero_grad()
            for call in before_backward:
                call(loss)
            strategy.backward(loss)
            for call in after_backward:
                call()
            for call in before_step:
                call(optimizer)
            strategy.optimizer_step(optimizer)
            progress.global_step += 1
            progress.samples += share.total
            if has_step_schedulers:
                step_schedulers(context.schedulers, "step", progress.global_step, self._results.metrics)
            return output

        return take


def _nothing_read(feed: Feed) -> DataError:
    return DataError(
        "data.empty",
        "the training loader gave no batch",
        values={"batches": feed.num_batches},
        because="an epoch has at least one step",
        hint="check the dataset's length, drop_last and limit_train_batches",
    )
