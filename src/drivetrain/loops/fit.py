"""FitLoop: epochs and steps."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, TypeAlias, final

import torch

from drivetrain.base.loading import Later
from drivetrain.base.quantity import Quantity
from drivetrain.base.where import HERE
from drivetrain.data import Feed, Share, part_of
from drivetrain.events import is_unused
from drivetrain.loops import checkpoint as checkpoints
from drivetrain.loops.context import Context
from drivetrain.loops.interval import Interval, LogInterval
from drivetrain.loops.meters import metrics_unchanged
from drivetrain.loops.optimization import read_optimizers, step_schedulers
from drivetrain.loops.pulse import Pulse
from drivetrain.loops.refusal import beyond, no_part, nothing_read
from drivetrain.loops.results import TRAIN_EPOCH, TRAIN_STEP, Part
from drivetrain.loops.settings import Settings
from drivetrain.loops.signals import Signals
from drivetrain.loops.skipping import Skipping, may_skip
from drivetrain.loops.stepping import AutomaticStepper, ManualStepper, Stepper, Take, which_optimizer
from drivetrain.loops.switches import switches_of
from drivetrain.loops.tokens import TokenCount
from drivetrain.loops.trainable import check_module
from drivetrain.loops.transfer import mover

if TYPE_CHECKING:
    from drivetrain.loops import restoring
    from drivetrain.loops.evaluation import EvaluationLoop
else:
    restoring = Later("drivetrain.loops.restoring")

Loaded: TypeAlias = "tuple[Feed, EvaluationLoop | None]"
"""The training data, and the validation on its data where there is one."""


@final
class FitLoop:
    """Trains; one object a fit and rank.

    An epoch: its steps, with validations among or after them, on_train_epoch_end, epoch schedulers, then
    the callbacks that save. A checkpoint is exact after a step's hooks, a validation's and an epoch's.
    """

    def __init__(self, context: Context, settings: Settings, load: Callable[[], Loaded]) -> None:
        self._context, self._settings = context, settings
        self._load = context.watch.call(load, "load_dataloaders")
        self._bounds = settings.bounds
        self._results, self._strategy, self._progress = context.results, context.strategy, context.progress
        self._world_size = context.strategy.ranks.world_size
        self._feed: Feed
        self._validation: EvaluationLoop | None = None
        self._is_stale = self._only_ends = False
        self._read_epoch = -1
        context.reload, context.configure_optimizers = self._reload_when_due, self._configure
        context.data_state = self._data_state
        context.load_data_state = self._load_data_state
        context.training_batches, context.share_step = self._once_more, self._share_step
        self._pulse = Pulse(context.strategy.collectives, context.strategy.device)
        self._skipping = Skipping(context.strategy.collectives, context.strategy.device)
        self._tokens = TokenCount(context.module, context.strategy.collectives, context.strategy.device)
        self._stepper: Stepper
        wanted = settings.validation.interval
        self._interval: Interval | None = None
        if isinstance(wanted, Quantity):
            self._interval = Interval(wanted, context.strategy.collectives, context.strategy.device)
        self._logs: LogInterval | None = None
        if isinstance(settings.log_every_n_steps, Quantity):
            pulse, rank = None if self._world_size == 1 else self._pulse, context.strategy.ranks.rank
            self._logs = LogInterval(settings.log_every_n_steps, pulse, is_teller=rank == 0)
        self._signals = Signals()
        self.stopped_early = False
        self.signal = 0
        """The signal for which all ranks saved and left; 0 for none."""

    def run(self, checkpoint: Mapping[str, Any] | None, path: object) -> None:
        """Train from the beginning, or from where the checkpoint stood."""
        context, progress = self._context, self._progress
        context.phase = "train"
        if checkpoint is None:
            self._read_loaders()
        self._setup(checkpoint, path)
        with self._signals.noted():  # also while the sanity check runs: acted upon after the first step
            self._start(checkpoint)
            run_epoch = context.watch.call(self._epoch, "run_training_epoch")
            is_over = self._is_over()
            self._only_ends = is_over and checkpoint is not None and self._is_cut()
            while not is_over or self._only_ends:
                run_epoch()
                if progress.is_done:
                    progress.next_epoch()
                    self._reload()
                is_over, self._only_ends = self._is_over(), False
            self._leave_late()
        if self._settings.accumulation.spans_epochs and not (self.stopped_early or self.signal):
            self._stepper.finish()
        self._strategy.share_buffers(context.module)
        self._results.leave()
        context.events("on_train_end")
        context.events("on_fit_end")
        self._strategy.gather_optimizers(context.optimizers)
        self._strategy.optimizers_to_device(context.optimizers, torch.device("cpu"))
        checkpoints.gather_ranks(context)
        self._strategy.gather_model(context.module)

    def _start(self, checkpoint: Mapping[str, Any] | None) -> None:
        """Call the hooks of a fit's start, and set what they may have changed in one that is resumed."""
        context = self._context
        context.events("on_fit_start")
        if checkpoint is None:
            self._check_sanity()
        self._results.enter(TRAIN_EPOCH)
        context.events("on_train_start")
        self._strategy.spread_rng()
        if checkpoint is not None:
            restoring.restore_last(context, checkpoint)

    def _setup(self, checkpoint: Mapping[str, Any] | None, path: object) -> None:
        context, module = self._context, self._context.module
        check_module(module, self._settings)
        if not module.training:
            module.train()
        context.begun_with = switches_of(module)
        one_backward = module.automatic_optimization and which_optimizer(module.training_step) is None
        self._strategy.setup(module, context.step("training_step"), one_backward=one_backward)
        if checkpoint is not None:
            restoring.restore_weights(context, checkpoint, path)
            restoring.restore_counters(context, checkpoint, path, self._read_loaders, self._reloads)
        self._configure()
        if checkpoint is not None:
            restoring.restore_training(context, checkpoint, path)
            self._strategy.optimizers_to_device(context.optimizers, self._strategy.device)
        if self._interval is not None:
            self._interval.begin(self._progress)
        if self._logs is not None:
            self._logs.begin(self._progress, self._feed.num_batches)
        context.first_step = self._progress.global_step
        context.log_hyperparameters()

    def _configure(self) -> None:
        """Ask the module for its optimizers, and make ready to step with them."""
        context, module = self._context, self._context.module
        configure = f"[Module]{type(module).__name__}.configure_optimizers"
        found = context.watch.call(read_optimizers, configure)(module, self._settings.clipping)
        context.stepped, context.schedulers = found.stepped, found.schedulers
        context.handles += context.watch.steps(context.optimizers)
        if module.automatic_optimization:
            self._stepper = AutomaticStepper(context, self._planned)
        else:
            self._stepper = ManualStepper(context)
        self._strategy.setup_optimizers(context.optimizers)
        context.windows = self._stepper.windows
        module._stepper = self._stepper  # noqa: SLF001 - the run's side of it

    def _check_sanity(self) -> None:
        """Run a few validation batches, so that a mistake there shows now and not after an epoch."""
        num_batches, validation = self._settings.validation.num_sanity_steps, self._validation
        if validation is None or num_batches == 0:
            return
        before = self._strategy.rng_state()
        self._context.events("on_sanity_check_start")
        HERE.note(stage="sanity check")
        self._context.phase = "sanity"
        run = self._context.watch.call(validation.run, "run_sanity_check")
        with self._strategy.joint(self._context.module):
            run(None if num_batches < 0 else num_batches)
        self._context.phase = "train"
        HERE.note(stage="fit")
        self._context.events("on_sanity_check_end")
        self._results.clear()
        self._strategy.set_rng_state(before)

    def _is_over(self) -> bool:
        progress, bounds = self._progress, self._bounds
        if self.signal:
            return True
        if bounds.max_epochs >= 0 and progress.epoch >= bounds.max_epochs:
            return True
        if self._is_full():
            return True
        if 0 <= bounds.max_steps <= progress.global_step or self._feed.num_batches == 0:
            return True
        return self._stops()

    def _is_cut(self) -> bool:
        """Whether the run was killed after its last step, before the hooks of its last epoch's end."""
        progress, max_epochs = self._progress, self._bounds.max_epochs
        is_in_bounds = max_epochs < 0 or progress.epoch < max_epochs
        return is_in_bounds and progress.steps > 0 and progress.closed_at != progress.seen

    def _stops(self) -> bool:
        """Whether somebody, on any rank, asked to stop and the bounds allow it."""
        progress, bounds = self._progress, self._bounds
        wanted = self._anywhere(bool(self._context.run.should_stop))
        if not wanted or progress.epoch < bounds.min_epochs or progress.global_step < bounds.min_steps:
            return False
        self._context.run.should_stop = self.stopped_early = True
        return True

    def _reload(self) -> None:
        if self._is_stale or self._reloads():
            self._is_stale = False
            self._read_loaders()

    def _reloads(self) -> bool:
        """Whether this epoch has loaders of its own."""
        every = self._settings.reload_every_n_epochs
        return bool(every) and self._progress.epoch % every == 0

    def _read_loaders(self) -> None:
        """Ask the user for the loaders, and note from what state of things, for a run that goes on."""
        context = self._context
        datamodule, is_first, state = context.datamodule, not hasattr(self, "_feed"), {}
        # Before the first loaders it is as it was made, and may not be able to tell its state yet.
        if datamodule is not None and not is_first and not is_unused(datamodule.state_dict):
            state = copy.deepcopy(datamodule.state_dict())
        context.loaded = {"epoch": self._progress.epoch, "datamodule": state}
        self._feed, self._validation = self._load()

    def _reload_when_due(self) -> None:
        """Ask for the loaders again: at once, or after the epoch whose batches are being read."""
        self._is_stale = self._progress.batches > 0
        if not self._is_stale:
            self._read_loaders()

    def _epoch(self) -> None:
        context, progress, results = self._context, self._progress, self._results
        HERE.note(stage="fit", epoch=progress.epoch)
        if not progress.is_started:
            results.enter(TRAIN_EPOCH)
            context.run.accumulate_grad_batches = self._settings.accumulation.at(progress.epoch)
            context.events.early("on_train_epoch_start")
            progress.accumulate, progress.is_started = context.run.accumulate_grad_batches, True
            context.events.last("on_train_epoch_start")
            progress.accumulate = context.run.accumulate_grad_batches
        if not progress.is_trained:
            results.enter(TRAIN_STEP, in_step=True)
            progress.is_trained = self._steps()
            self._skipping.settle()
            self._check(self._pulse.finish(self._signals.number))
            if self._pulse.signal and not self.signal:
                self._leave(is_alone=False)
        if self.signal:
            return
        is_whole = progress.is_trained
        if self._is_due_after():
            self._validate()
        # Its hooks may read the epoch's values, and the torchmetrics objects that they are from.
        logged = results.reduce_epoch({TRAIN_STEP: Part()}, keep=True)[TRAIN_STEP]
        results.enter(TRAIN_EPOCH)
        context.events.early("on_train_epoch_end")
        logged |= results.reduce_epoch({TRAIN_EPOCH: Part()})[TRAIN_EPOCH]
        if is_whole:
            results.forget([TRAIN_STEP])
        context.write(lambda: results.for_loggers(logged))
        if is_whole and context.module.automatic_optimization:
            step_schedulers(context, "epoch", progress.epoch + 1)
        progress.is_done = is_whole
        if not is_whole:
            progress.closed_at = progress.seen
        context.events.last("on_train_epoch_end")

    def _is_due_after(self) -> bool:
        """Whether the epoch's end asks for a validation that the steps have not brought."""
        progress, wanted = self._progress, self._settings.validation
        every = wanted.every_n_epochs
        if self._validation is None or every is None or progress.validated_at == progress.seen:
            return False
        return _is_whole(wanted.interval) and (progress.epoch + 1) % every == 0

    def _every_batches(self) -> int | None:
        """Return how many batches lie between validations within the epoch; None for none within."""
        wanted, total = self._settings.validation, self._context.num_training_batches
        if self._validation is None or _is_whole(wanted.interval):
            return None
        if wanted.every_n_epochs is not None and (self._progress.epoch + 1) % wanted.every_n_epochs:
            return None
        if isinstance(wanted.interval, Quantity):
            return 1  # it is asked after each
        if isinstance(wanted.interval, int):
            if total is not None and wanted.every_n_epochs is not None and wanted.interval > total:
                raise beyond(wanted.interval, total)
            return wanted.interval
        if total is None:
            raise no_part("val_check_interval", wanted.interval)
        return max(1, part_of(total, wanted.interval))

    def _validate(self) -> None:
        context, progress, validation = self._context, self._progress, self._validation
        assert validation is not None  # noqa: S101 - asked for only where there is one
        HERE.note(stage="validate")
        # A checkpoint that is taken within the validation runs it again, from the same random state.
        context.before_validation = checkpoints.passing(context)
        self._strategy.share_buffers(context.module)
        is_open = any(window.is_open for window in context.windows)
        if not is_open and not is_unused(context.module.on_validation_model_zero_grad):
            context.module.on_validation_model_zero_grad()

        def is_done() -> None:
            context.before_validation, progress.validated_at = None, progress.seen
            progress.is_validating = False

        with self._strategy.joint(context.module):
            context.watch.call(validation.run, "run_validation")(when_done=is_done)
        HERE.note(stage="fit")
        self._results.enter(TRAIN_STEP, in_step=True)

    def _planned(self, factor: int) -> int:
        """Return how many of the coming batches, ``factor`` at most, one optimizer step takes."""
        if factor == 1 or self._feed.num_batches is None or self._settings.accumulation.spans_epochs:
            return factor
        left = math.ceil((self._feed.num_batches - self._progress.batches) / self._world_size)
        return max(1, min(factor, left))

    def _steps(self) -> bool:  # noqa: C901, PLR0912, PLR0915 - the hot path: a branch costs less than a call
        """Take the steps of an epoch that are left; return whether the epoch came to its end.

        This is the hot path: hooks were looked up before, and nothing reads a tensor's value.
        """
        context, progress, results = self._context, self._progress, self._results
        starts = context.events.calls("on_train_batch_start")
        ends, last_ends = context.events.turns("on_train_batch_end")
        log_every = context.log_every_n_steps if isinstance(context.log_every_n_steps, int) else 0
        max_steps, is_alone = self._bounds.max_steps, self._world_size == 1
        num_batches, move = self._feed.num_batches, mover(context, 0)
        by_batch = context.counts_each and not context.module.automatic_optimization
        may_be_left = may_skip(starts)
        every, is_total = self._every_batches(), self._settings.validation.every_n_epochs is None
        context.run.accumulate_grad_batches = progress.accumulate
        take = context.watch.call(self._stepper.take(progress.accumulate), "run_training_batch")
        shown = context.shown
        share = None
        if every and self._is_due_within(every, is_total=is_total, is_logging=False):
            self._validate()  # the checkpoint that this run goes on from was taken right before it, or in it
        if self._only_ends:
            return progress.batches == num_batches
        for batch, share in self._batches():
            index, step = progress.steps, progress.global_step
            HERE.note(step=step, batch=share.number)
            context.in_step = True
            tokens, samples, moved = self._tokens.start(batch, share.size), progress.samples, move(batch)
            results.at_batch(step, share.size)
            if starts:
                wants = any([call(moved, index) == -1 for call in starts])  # noqa: C419 - every one is called
                if self._skipping.agreed(mine=wants) if may_be_left else wants:
                    context.in_step = False
                    tokens()
                    break
            output = take(moved, index, share) if share.size else self._stand_in(take, moved, index, share)
            progress.tokens += tokens() * (progress.samples != samples)
            progress.batches, progress.steps = share.consumed, index + 1
            progress.seen += 1
            context.in_step = False
            is_full = self._is_full()
            if is_full and not self._settings.accumulation.spans_epochs:
                self._stepper.finish()  # as at an epoch's end: what was computed is used
            is_last = max_steps == progress.global_step or share.consumed == num_batches or is_full
            counted = progress.seen if by_batch else progress.global_step
            has_stepped = by_batch or counted != step
            is_due = has_stepped and (counted % log_every == 0 if log_every else self._logs_now())
            context.is_logging_step = is_due
            is_logging = is_last or is_due
            if not is_alone:
                self._tell()
            if is_logging:
                self._share_step()
            output = output if shown is None else shown(output)
            for call in ends:
                call(output, moved, index)
            if is_logging:
                self._write_step()
            for call in last_ends:
                call(output, moved, index)
            if self._signals.number or self._pulse.signal:
                self._leave(is_alone=is_alone)
            if self.signal:
                return False
            if every and self._is_due_within(every, is_total=is_total, is_logging=is_logging):
                self._validate()
                is_logging = True
            if is_last or ((is_logging or is_alone) and self._wants_stop()):
                return share.consumed == num_batches
        if share is None and not progress.batches:
            raise nothing_read(self._feed)
        if not self._settings.accumulation.spans_epochs:
            self._stepper.finish()
        return True

    def _logs_now(self) -> bool:
        return self._logs is not None and self._logs.is_due(self._progress, self._feed.num_batches)

    def _is_due_within(self, every: int, *, is_total: bool, is_logging: bool) -> bool:
        progress = self._progress
        if self._interval is not None:
            progress.is_validating |= self._interval.is_due(progress, is_logging=is_logging)
            return progress.is_validating
        count = progress.seen if is_total else progress.steps
        return count > 0 and count % every == 0 and progress.validated_at != progress.seen

    def _batches(self) -> Iterator[tuple[Any, Share]]:
        """Return this epoch's batches from where the run stands, without a trace in the random state."""
        self._read_epoch = self._progress.epoch
        epoch = 0 if self._settings.overfit else self._progress.epoch
        batches = self._feed.training(epoch, self._progress.batches)
        return self._context.watch.each(batches, "[FitLoop].train_dataloader_next")

    def _once_more(self) -> Iterator[Any]:
        """Read the data apart from the epochs: as an evaluation does, each batch on one rank."""
        move = mover(self._context, 0)
        return (move(batch) for batch, _ in self._feed.evaluation())

    def _data_state(self) -> dict[str, Any]:
        is_reading = self._read_epoch == self._progress.epoch and not self._progress.is_trained
        return self._feed.state_dict(is_read=not is_reading)

    def _load_data_state(self, state: Mapping[str, Any]) -> None:
        self._feed.load_state_dict(state)

    def _is_full(self) -> bool:
        """Whether the samples, tokens, or part of an epoch that bound the fit have been seen."""
        progress, bounds = self._progress, self._bounds
        if self._context.counts_each and 0 <= bounds.max_steps <= progress.optimizer_steps:
            return True
        if bounds.max_samples is not None and progress.samples >= bounds.max_samples:
            return True
        if bounds.max_tokens is not None and progress.tokens >= bounds.max_tokens:
            return True
        if bounds.max_part is None or progress.epoch < int(bounds.max_part):
            return False
        if progress.epoch > bounds.max_part:
            return True
        total = self._context.num_training_batches
        if total is None:
            raise no_part("max_epochs", float(bounds.max_part))
        return progress.steps >= math.ceil(total * (bounds.max_part % 1))

    def _wants_stop(self) -> bool:
        # One rank needs no talk about it, so the common case is one attribute.
        return (self._world_size > 1 or bool(self._context.run.should_stop)) and self._stops()

    def _tell(self) -> None:
        names = self._results.step_names()
        is_over = bool if self._logs is None else self._logs.is_over
        self._check(self._pulse.step(names, self._results.word(names), self._signals.number, is_over))

    def _leave(self, *, is_alone: bool) -> None:
        """Save and leave, once every rank knows of the signal; so all are after the same step."""
        self.signal = self._signals.number if is_alone else self._pulse.signal
        self._save_for_signal()

    def _save_for_signal(self) -> None:
        path, self._context.is_leaving = self._settings.signal_path, self.signal != 0
        if self.signal and path is not None:
            save = self._context.watch.call(checkpoints.save, "save_checkpoint")
            save(self._context, path, weights_only=False, is_live=True)

    def _leave_late(self) -> None:
        """Leave for a signal that came after the last step, as in the last validation: nobody else would.

        Collectives:
            one all_reduce of 8 bytes; every rank must call.
        """
        if self.signal:
            return
        number = torch.tensor([self._signals.number], device=self._strategy.device)
        self.signal = int(self._strategy.collectives.all_reduce(number, "max").item())
        self._save_for_signal()

    def _check(self, wrong: list[tuple[str, ...]] | None) -> None:
        if wrong is not None:
            self._results.compare(wrong)

    def _share_step(self) -> None:
        """Reduce over ranks what steps logged, unless nothing is new on any of them.

        Collectives:
            with several ranks one all_reduce of 24 bytes, and those of `Results.reduce_step`.
        """
        if self._world_size == 1:
            return
        names, is_fresh = self._results.epoch_names(), self._results.is_fresh
        word = self._results.word(names)
        words = torch.tensor([word, -word, is_fresh], dtype=torch.int64, device=self._strategy.device)
        high, negated_low, is_any = self._strategy.collectives.all_reduce(words, "max").tolist()
        self._check(None if high == -negated_low else [names])
        if is_any:
            self._results.reduce_step()

    def _write_step(self) -> None:
        """Write what the step and its hooks logged."""
        self._share_step()
        self._context.write(self._results.step_values, is_step=True)

    def _anywhere(self, mine: bool) -> bool:
        """Say whether it is so on any rank."""
        if self._world_size == 1:
            return mine
        word = torch.tensor([int(mine)], device=self._strategy.device)
        return bool(self._strategy.collectives.all_reduce(word, "max").item())

    def _stand_in(self, take: Take, batch: Any, index: int, share: Share) -> Any:
        """Take a step whose batch is another rank's: it counts nowhere, so not in a metric's own sums."""
        sync = self._strategy.layer_sync
        with metrics_unchanged(self._context.module), nullcontext() if sync is None else sync.uncounted():
            return take(batch, index, share)


def _is_whole(interval: float | Quantity) -> bool:
    """Whether validations come after whole epochs; 1 is after every batch."""
    return type(interval) is float and interval == 1.0
