"""The largest batch size that the devices have memory for.

Trials do not communicate: each rank runs its own, alone, on copies and on its own device, and the ranks
vote after it. So a rank whose memory runs out in the middle of a step leaves nobody waiting for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, final

import torch

from drivetrain.accelerators.memory import is_out_of_memory
from drivetrain.base.errors import TrainerError
from drivetrain.callbacks.callback import Callback
from drivetrain.collectives.place import Place
from drivetrain.data import CombinedLoader
from drivetrain.loops.settings import Bounds
from drivetrain.loops.verbs import KINDS
from drivetrain.resolver.ranks import Ranks
from drivetrain.resolver.resolve import Resolution
from drivetrain.strategies.strategy import Strategy
from drivetrain.trainer.twin import twin_of
from drivetrain.tuner.finder import LEFT_OUT, aside, free, run_fit
from drivetrain.tuner.places import assign, needed_places, places
from drivetrain.tuner.refusal import bad, check_count

MODES = ("power", "binsearch")
STAGES = ("fit", "validate", "test", "predict")


@dataclass(frozen=True)
class SizeSearch:
    """What a search for a batch size is told."""

    mode: str = "power"
    """``power`` doubles while it fits; ``binsearch`` then halves the interval to what did not."""
    steps_per_trial: int = 3
    """Optimizer steps, or batches where nothing is trained."""
    init_val: int = 2
    max_trials: int = 25
    batch_arg_name: str = "batch_size"
    margin: float = 0.05
    """Part that ``binsearch`` takes off what it found at the edge of the memory."""
    max_val: int | None = 8192

    def check(self, caller: str) -> None:
        """Refuse what makes no search.

        Raises:
            TrainerError [trainer.bad-argument]: a value that an argument cannot have.
        """
        if self.mode not in MODES:
            raise bad(caller, "mode", self.mode, "'power' or 'binsearch'", "'power'")
        for name, example in (("steps_per_trial", "3"), ("init_val", "2"), ("max_trials", "25")):
            check_count(caller, name, getattr(self, name), 1, example)
        if self.max_val is not None:
            check_count(caller, "max_val", self.max_val, self.init_val, "8192, or None for no bound")
        if type(self.margin) not in (int, float) or not 0 <= self.margin < 1:
            raise bad(caller, "margin", self.margin, "a part, from 0 to below 1", "0.05")
        if not str(self.batch_arg_name).isidentifier():
            raise bad(caller, "batch_arg_name", self.batch_arg_name, "an attribute's name", "'batch_size'")


class Outcome(NamedTuple):
    """What a trial of one size came to."""

    fits: bool
    most: int | None = None
    """The size from which on batches grow no more, as the data ends; None where nobody knows."""
    sizes: tuple[int | None, ...] = ()
    """What the loaders say of their batches; None where one says nothing."""


def narrow(attempt: Callable[[int], Outcome], wanted: SizeSearch) -> int:
    """Return the largest size that was found to fit.

    Raises:
        TrainerError [trainer.bad-argument]: the first one does not; or the loaders do not follow the size.
    """
    best, failed, size = 0, 0, wanted.init_val
    most = math.inf if wanted.max_val is None else wanted.max_val
    before: tuple[int, Outcome] | None = None
    for _ in range(wanted.max_trials):
        found = attempt(size)
        if before is not None and _is_fixed(before[1], found):
            raise _fixed(wanted, before[0], size, found)
        before = (size, found)
        most = most if found.most is None else min(most, found.most)
        if found.fits:
            best = int(min(size, most))
        else:
            failed = size
        if failed and not best:
            raise _no_room(wanted, found)
        if not failed:
            if size >= most:
                break
            size = int(min(2 * size, most))
        elif wanted.mode == "power" or failed - best <= 1:
            break
        else:
            size = (best + failed) // 2
    if failed and wanted.mode == "binsearch":
        best = max(int(best * (1 - wanted.margin)), 1)
    return best


def search(trainer: Any, module: Any, wanted: SizeSearch) -> int:
    """Search in the middle of a run, once its data is set up; every rank returns the same size.

    Collectives:
        one object of a few bytes a trial; every rank must call.
    Raises:
        TrainerError [trainer.bad-argument]: there is nothing that the size can be set on, or that follows it.
    """
    context = trainer._context
    strategy: Strategy = context.strategy
    refuse_passed(context.stage, context.passed[0])
    needed_places(wanted.batch_arg_name, "batch size", module, context.datamodule)
    if not strategy.has_whole_model:
        raise _in_parts(trainer.plan.strategy.name)
    with aside(strategy) as folder:

        def attempt(size: int) -> Outcome:
            mine = _try(trainer, module, size, wanted, folder)
            free(strategy)
            return _vote(strategy.collectives.all_gather_object(mine))

        strategy.collectives.barrier()  # what a first collective takes of the device is taken now
        return narrow(attempt, wanted)


def refuse_passed(stage: str, loaders: Any) -> None:
    """Refuse a loader that is there already.

    Raises:
        TrainerError [trainer.bad-argument]: it cannot get another batch size.
    """
    if loaders is None:
        return
    kind = "train" if stage == "fit" else KINDS[stage]
    raise TrainerError(
        "trainer.bad-argument",
        f"the batch size of the {kind} loader that was passed to {stage} cannot be searched",
        values={"loaders": loaders},
        because="a DataLoader that was made keeps its batch size, so each size needs a loader of its own",
        hint=f"pass no loader, and write in the module or in a DataModule: def {kind}_dataloader(self): "
        "return DataLoader(dataset, batch_size=self.batch_size)",
    )


@final
class Trial(Callback):
    """Looks at the loaders of a trial, and takes of the device what other ranks would cost it."""

    def __init__(self, kind: str, world_size: int, bytes_beside: Callable[[torch.nn.Module], int]) -> None:
        self._kind, self._world_size, self._bytes_beside = kind, world_size, bytes_beside
        self._ballast: torch.Tensor | None = None
        self.most: int | None = None
        self.sizes: tuple[int | None, ...] = ()

    def on_validation_start(self, trainer: Any, module: Any) -> None:
        """Look at the loaders."""
        self._look(trainer)

    def on_test_start(self, trainer: Any, module: Any) -> None:
        """Look at the loaders."""
        self._look(trainer)

    def on_predict_start(self, trainer: Any, module: Any) -> None:
        """Look at the loaders."""
        self._look(trainer)

    def on_train_start(self, trainer: Any, module: Any) -> None:
        """Look at the loaders, and take the room of the buffers for gradients."""
        self._look(trainer)
        self._ballast = torch.empty(self._bytes_beside(module), dtype=torch.uint8, device=module.device)
        trainer.lr_scheduler_configs.clear()  # they need no memory, and may watch what is not logged here

    def _look(self, trainer: Any) -> None:
        loaders: list[Any] = []
        for one in trainer._context.loaders[self._kind]:
            loaders += one.flattened if isinstance(one, CombinedLoader) else [one]
        self.sizes = tuple(_size_of(one) for one in loaders)
        lengths = [_length_of(one) for one in loaders]
        known = [length for length in lengths if length is not None]
        if known and len(known) == len(lengths):
            self.most = max(math.ceil(max(known) / self._world_size), 1)


def _try(trainer: Any, module: Any, size: int, wanted: SizeSearch, folder: Path) -> Outcome:
    """Run some steps with a size on this rank alone; True in it where memory was enough."""
    context = trainer._context
    strategy, stage = context.strategy, context.stage
    kind = "train" if stage == "fit" else KINDS[stage]
    trial = Trial(kind, strategy.ranks.world_size, strategy.bytes_beside)
    try:
        twin, given, copied = twin_of(
            trainer,
            trial,
            {"datamodule": context.datamodule},
            module,
            Bounds(max_steps=wanted.steps_per_trial),
            folder,
            validates=stage == "validate",
            limits={kind: 1.0 if stage == "fit" else wanted.steps_per_trial},
            left_out=LEFT_OUT,
        )
        datamodule = given["datamodule"]
        assign(places(wanted.batch_arg_name, copied, datamodule), wanted.batch_arg_name, size)
        twin._resolution = _alone(twin._resolution, strategy.ranks)
        if stage == "fit":
            run_fit(twin, copied, datamodule, None, Place(Ranks()))
        else:
            twin._run_within(stage, copied, datamodule, None, Place(Ranks()))
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        return Outcome(fits=False, most=trial.most, sizes=trial.sizes)
    return Outcome(fits=True, most=trial.most, sizes=trial.sizes)


def _alone(found: Resolution, ranks: Ranks) -> Resolution:
    """Return the plan of a rank's own device, in a world of one."""
    plan = found.plan
    mine = replace(
        plan,
        device_ids=(plan.device_ids[ranks.local_rank % len(plan.device_ids)],),
        num_nodes=1,
        layout=dict.fromkeys(plan.layout, 1),
        launcher="none",
        environment="none",
        process_group_backend="none",
    )
    return replace(found, plan=mine)


def _vote(outcomes: list[Outcome]) -> Outcome:
    """Return what holds for all ranks: a size fits where it fits each of them."""
    known = [one.most for one in outcomes if one.most is not None]
    sizes = next((one.sizes for one in outcomes if one.sizes), ())
    return Outcome(all(one.fits for one in outcomes), min(known, default=None), sizes)


def _is_fixed(one: Outcome, other: Outcome) -> bool:
    """Whether the loaders' batches were the same for two sizes, as far as the loaders say."""
    said = [size for size in other.sizes if size is not None]
    return bool(said) and one.sizes == other.sizes


def _size_of(loader: Any) -> int | None:
    found = getattr(loader, "batch_size", None)
    if found is None:
        found = getattr(getattr(loader, "batch_sampler", None), "batch_size", None)
    return found if type(found) is int else None


def _length_of(loader: Any) -> int | None:
    """Return how many samples a loader reads in an epoch."""
    sampler = getattr(getattr(loader, "batch_sampler", None), "sampler", None)
    length = _len(sampler)
    return _len(getattr(loader, "dataset", None)) if length is None else length


def _len(thing: Any) -> int | None:
    try:
        return len(thing)
    except (TypeError, NotImplementedError):
        return None


def _fixed(wanted: SizeSearch, before: int, size: int, found: Outcome) -> TrainerError:
    name = wanted.batch_arg_name
    return TrainerError(
        "trainer.bad-argument",
        f"{name} was changed from {before} to {size}, and the loaders' batches stayed as they were",
        values={name: size, "batch sizes of the loaders": list(found.sizes)},
        because="the loaders are made anew for each trial, and have to be made with that size",
        hint=f"write DataLoader(dataset, batch_size=self.{name}), or pass batch_arg_name=...",
    )


def _no_room(wanted: SizeSearch, found: Outcome) -> TrainerError:
    return TrainerError(
        "trainer.bad-argument",
        f"memory runs out with the first batch size, init_val={wanted.init_val}",
        values={"init_val": wanted.init_val, "batch sizes of the loaders": list(found.sizes)},
        because="the search grows from a size that fits on every rank",
        hint="pass a smaller init_val" if wanted.init_val > 1 else "use a smaller model or number format",
    )


def _in_parts(strategy: str) -> TrainerError:
    return TrainerError(
        "trainer.bad-argument",
        f"strategy {strategy!r} leaves each rank with a part of the model",
        values={"strategy": strategy},
        because="each rank tries a size by itself, and for that it needs the whole model",
        hint="search with strategy='ddp' or 'single', or set the batch size by hand",
    )
