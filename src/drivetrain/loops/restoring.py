"""A checkpoint as a run again."""

from __future__ import annotations

import contextlib
import copy
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from drivetrain.base.errors import CheckpointError, DrivetrainWarning, Notice
from drivetrain.checkpoint_io.entry import Entry
from drivetrain.events import is_unused
from drivetrain.loops import kept, lightning, pending
from drivetrain.loops.checkpoint import LOGGED
from drivetrain.loops.context import Context
from drivetrain.loops.meters import restore_meters
from drivetrain.loops.slots import merged
from drivetrain.loops.switches import restore_switches
from drivetrain.modules.module import load_weights


def restore_weights(context: Context, checkpoint: Mapping[str, Any], path: object) -> None:
    """Load the model's weights only; after the strategy has set the module up.

    The module's hook is first, as it may mend the names; callbacks find the weights in the module, and what
    they put into ``state_dict`` is loaded in a second turn.
    """
    module = context.module

    def load() -> None:
        load_weights(module, checkpoint, path, lambda state: context.strategy.load_model_state(module, state))

    before = checkpoint.get("state_dict")
    context.events.early("on_load_checkpoint", checkpoint)
    state = checkpoint.get("state_dict")
    load()
    loaded = dict(state) if isinstance(state, Mapping) else {}
    context.events.last("on_load_checkpoint", checkpoint)
    state = checkpoint["state_dict"]
    if state.keys() != loaded.keys() or any(state[name] is not loaded[name] for name in loaded):
        load()
    is_average = checkpoint.get("current_model_state") is not None and checkpoint.get("state_dict") is before
    if is_average and context.stage == "fit" and context.strategy.ranks.is_zero:
        # Nobody has put the weights of training in its place.
        _warn_of_average(path, "it goes on from the average, with an optimizer that belongs to other weights")


def restore_states(context: Context, checkpoint: Mapping[str, Any], path: object) -> None:
    """Give callbacks that act in evaluations what the checkpoint has of them; it may have nothing.

    Those that save or decide are left as they are: what they know is of the fit that this trainer ran.
    """
    if not isinstance(checkpoint.get("callbacks"), Mapping):
        return
    kept = Entry(checkpoint, path)["callbacks"]
    for callback in context.callbacks:
        if callback.is_last or callback.decides or callback.acts_in_fit_only:
            continue
        state = lightning.state_of(callback, kept)
        if state is not None:
            with state.reading():
                callback.load_state_dict(state.value)


def _warn_of_average(path: object, what: str) -> None:
    text = (
        f"{path} was saved by a callback that averages weights, and this fit has none: {what}. Pass the "
        "callback again, such as dt.EMAWeightAveraging; or, for a new training, load the weights only: "
        "Model.load_from_checkpoint, then fit without ckpt_path"
    )
    warnings.warn(str(Notice("checkpoint.averaged", text)), DrivetrainWarning, stacklevel=2)


def _is_average(state: object) -> bool:
    """Whether a callback's state is that of an average that grows beside the weights of training."""
    average = state.get("average") if isinstance(state, Mapping) else None
    return isinstance(average, Mapping) and {"tensors", "count"} <= average.keys()


def restore_counters(
    context: Context,
    checkpoint: Mapping[str, Any],
    path: object,
    load: Callable[[], None],
    reloads: Callable[[], bool],
) -> None:
    """Take up counters and the data module's state, and ``load`` the loaders as they were loaded.

    The user is asked for loaders in the epoch in which the run had asked last, with the state that the data
    module had then; it has the newest one afterwards. Where a new epoch begins that ``reloads``, he is asked
    in that one.

    Raises:
        CheckpointError [checkpoint.no-training-state]: the file holds weights only, or is another library's.
        CheckpointError [checkpoint.damaged]: an entry is missing, or is not what it should be.
    """
    loops = checkpoint.get("loops")
    has_loop = isinstance(loops, Mapping) and "fit" in loops
    if "optimizer_states" not in checkpoint or not has_loop:
        raise CheckpointError(
            "checkpoint.no-training-state",
            f"{path} has no state to go on from",
            values={
                "path": str(path),
                "lacks": "optimizer_states" if has_loop else "loops.fit",
                "holds": sorted(map(str, checkpoint)),
            },
            because="fit(ckpt_path=...) goes on where a run stopped: optimizer, counters, random state",
            hint="load the weights only: Model.load_from_checkpoint(path), then fit without ckpt_path",
        )
    top, progress, datamodule = Entry(checkpoint, path), context.progress, context.datamodule
    kept.check_kept(top, counts_tokens=not is_unused(context.module.count_tokens))
    fit = top["loops"]["fit"]
    progress.load_state_dict(fit["progress"].mapping())
    newest = {"epoch": progress.epoch, "datamodule": top["datamodule"].value}
    is_new = fit["progress"]["is_done"].value and reloads()
    loaded = newest if is_new else fit.mapping().get("loaded", {"epoch": 0, "datamodule": {}})
    if datamodule is not None and loaded["datamodule"]:
        # Of an earlier moment: it may be of what the loaders make, and the newest is taken up below.
        with top["datamodule"].reading() if is_new else contextlib.suppress(Exception):
            datamodule.load_state_dict(copy.deepcopy(loaded["datamodule"]))
    now, progress.epoch = progress.epoch, loaded["epoch"]
    try:
        load()
    finally:
        progress.epoch = now
    context.loaded = {**loaded}
    if is_new:
        return
    if datamodule is not None and top["datamodule"].value:
        with top["datamodule"].reading():
            datamodule.load_state_dict(top["datamodule"].value)


def restore_training(context: Context, checkpoint: Mapping[str, Any], path: object) -> None:
    """Take up everything but what `restore_last` does.

    Raises:
        CheckpointError [checkpoint.mismatch]: it has another number of optimizers or schedulers.
        CheckpointError [checkpoint.damaged]: an entry is missing, or is not what it should be.
    """
    top, strategy = Entry(checkpoint, path), context.strategy
    for name, have in (("optimizer_states", context.optimizers), ("lr_schedulers", context.schedulers)):
        if len(top[name].sequence()) != len(have):
            raise CheckpointError(
                "checkpoint.mismatch",
                f"{path} has {len(checkpoint[name])} {name}, configure_optimizers gives {len(have)}",
                values={"path": str(path)},
                because="a run goes on with the optimizers and schedulers that it had",
                hint="return the same ones from configure_optimizers, or load the weights only",
            )
    states, taken = top["callbacks"], set()
    # Callbacks are first: one that has changed the optimizers' groups in the fit makes them so again.
    for callback in context.callbacks:
        state = lightning.state_of(callback, states)
        if state is not None:
            taken.add(state.name)
            with state.reading():
                callback.load_state_dict(state.value)
    left = [entry for _, entry in states.named() if entry.name not in taken and _is_average(entry.value)]
    if left and "current_model_state" not in checkpoint and strategy.ranks.is_zero:
        _warn_of_average(path, "what was averaged is left out, and the learning rate is the module's own")
    for optimizer, entry in zip(context.optimizers, top["optimizer_states"].each(), strict=True):
        kept.load_optimizer(optimizer, entry, strategy.load_optimizer_state, strategy.own_part)
    _restore_schedulers(context, top)
    context.run.should_stop |= context.progress.is_stopping
    _restore_loop(context, top["loops"]["fit"])


def _restore_loop(context: Context, fit: Entry) -> None:
    strategy = context.strategy
    kept = dict(fit["precision"].mapping())
    with fit["precision"].reading():
        strategy.precision.load_state_dict(kept)
        scale = float(kept.get("scale", 1.0))
    with fit["windows"].reading():
        pending.restore(context, fit["window"].sequence(), fit["windows"].sequence(), scale)
    _restore_ranks(context, fit)
    with fit["logged"].reading():
        _restore_logged(context, fit.mapping())
    _restore_data(context, fit["data"].each())


def _restore_ranks(context: Context, fit: Entry) -> None:
    """Give the strategy what each rank had of its own; of another number of ranks it takes what it can."""
    strategy, progress = context.strategy, context.progress
    states = fit.mapping().get("strategies", [])
    with fit["strategies"].reading() if states else contextlib.nullcontext():
        strategy.load_rank_state(context.module, states if any(states) else [], progress.global_step)
    was_apart = bool(states) and "tensors" in states[0]
    if was_apart and not strategy.takes_rank_states(len(states)) and strategy.ranks.is_zero:
        now = f"{context.run.plan.strategy.name!r} on {strategy.ranks.world_size}"
        text = (
            f"{len(states)} ranks had trained apart before this checkpoint was saved, and this fit is {now}: "
            "it goes on from the mean of their weights, with rank 0's optimizers"
        )
        warnings.warn(str(Notice("checkpoint.inexact", text)), DrivetrainWarning, stacklevel=2)


def _restore_schedulers(context: Context, top: Entry) -> None:
    for one, entry in zip(context.schedulers, top["lr_schedulers"].each(), strict=True):
        kept.load_scheduler(one.scheduler, entry)
    if top["global_step"].integer():
        for optimizer in context.optimizers:
            # Else torch warns that a scheduler steps before its optimizer, which stepped in the run before.
            optimizer._opt_called = True  # type: ignore[attr-defined]  # noqa: SLF001 - no public way


def _restore_data(context: Context, of_ranks: list[Entry]) -> None:
    ranks = context.strategy.ranks
    if of_ranks:
        # On another world size every rank reads the same data with the same objects: rank 0's state is all's.
        mine = of_ranks[ranks.rank if len(of_ranks) == ranks.world_size else 0]
        for _, states in mine.named():
            states.sequence()
        with mine.reading():
            context.load_data_state(mine.mapping())


def _restore_logged(context: Context, fit: Mapping[str, Any]) -> None:
    ranks, functions = context.strategy.ranks, fit.get("functions", {})
    for name, phase in LOGGED.items():
        logged = fit.get(name, [])
        mine: dict[str, Any] = logged[ranks.rank] if len(logged) == ranks.world_size else {}
        if len(logged) != ranks.world_size and ranks.is_zero and logged:
            mine = _merged(logged)
        context.results.load_state_dict(mine, phase, functions.get(name, {}))
    context.results.load_metrics(fit["metrics"], fit.get("names", {}))
    left = restore_meters(context.module, fit.get("meters", []), ranks.rank, ranks.world_size)
    if left and ranks.is_zero:
        text = (
            f"the epoch's values of {', '.join(left)} are those of rank 0 until the next reset: torchmetrics "
            "has no reduction by which those of several ranks are one. Go on with as many ranks, or give the "
            "metric's add_state a dist_reduce_fx"
        )
        warnings.warn(str(Notice("checkpoint.inexact", text)), DrivetrainWarning, stacklevel=2)


def _merged(logged: list[dict[str, Any]]) -> dict[str, Any]:
    """Put what several ranks logged into one rank's state; what they come to together stays what it was."""
    names = dict.fromkeys(name for one in logged for name in one)
    return {name: merged([one[name] for one in logged if name in one]) for name in names}


def restore_last(context: Context, checkpoint: Mapping[str, Any]) -> None:
    """Set what hooks of a fit's start may change: the module's switches, and this rank's random state.

    On another world size a new rank keeps numbers of its own.
    """
    kept = checkpoint["loops"]["fit"].get("switches")
    if kept is not None:
        restore_switches(context.module, kept, context.begun_with)
    states, ranks = checkpoint["rng"], context.strategy.ranks
    was_cut_off = not checkpoint["loops"]["fit"]["is_exact"] and lightning.VERSION not in checkpoint
    if ranks.is_zero and was_cut_off:
        what = "random state" if states else "random state, nor what the epoch had logged"
        text = (
            f"the run was cut off within a step before this checkpoint was saved: it has no exact {what}. "
            "Weights, optimizer and data go on; random draws may be others than without the interruption"
        )
        warnings.warn(str(Notice("checkpoint.inexact", text)), DrivetrainWarning, stacklevel=2)
    if ranks.rank < len(states):
        with Entry(states[ranks.rank], "the checkpoint", f"rng[{ranks.rank}]").reading():
            context.strategy.set_rng_state(states[ranks.rank])
