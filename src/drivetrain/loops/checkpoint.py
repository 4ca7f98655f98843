"""A run as a checkpoint."""

from __future__ import annotations

import os
from typing import Any

import torch

from drivetrain._version import __version__
from drivetrain.base.errors import TrainerError
from drivetrain.loops import pending
from drivetrain.loops.context import Context
from drivetrain.loops.meters import meters_of
from drivetrain.loops.results import TRAIN_EPOCH, TRAIN_STEP
from drivetrain.loops.switches import switches_of
from drivetrain.modules import DataModule
from drivetrain.modules.hyperparameters import split_plain

LOGGED = {"logged": TRAIN_STEP, "hooked": TRAIN_EPOCH}
"""What an epoch logs in its steps and in its hooks, by entry."""


def save(context: Context, path: str | os.PathLike[str], *, weights_only: bool, is_live: bool) -> None:
    """Write what the run is now. ``is_live`` is False after the run, when only rank 0 is left.

    Collectives:
        while the run is going on: a gather of every rank's random state and logged values, then the
        word whether the file is there; every rank must call.
    """
    strategy = context.strategy
    if is_live and context.in_batches and strategy.ranks.world_size > 1:
        raise _within_batches(context, path)
    if not is_live and not strategy.ranks.is_zero:
        return  # after the run rank 0 has what was gathered, and writes alone
    checkpoint: dict[str, Any] = {
        "state_dict": strategy.model_state(context.module),
        "epoch": context.progress.epoch,
        "global_step": context.progress.global_step,
        "hyper_parameters": split_plain(context.module.hparams, ())[0],
        "datamodule_hyper_parameters": _plain_of(context.datamodule),
        "drivetrain_version": __version__,
        "torch_version": str(torch.__version__),
        "plan": context.run.plan.to_dict(),
    }
    for name, holder in (("hparams_name", context.module), ("datamodule_hparams_name", context.datamodule)):
        if holder is not None and holder._hparams_name is not None:  # noqa: SLF001 - its part of the file
            checkpoint[name] = holder._hparams_name  # noqa: SLF001 - as above
    if not weights_only:
        checkpoint |= _training_state(context, is_live=is_live)
    context.events("on_save_checkpoint", checkpoint)
    if strategy.ranks.is_zero:
        for logger in context.run.loggers:
            logger.save()  # what was logged before the checkpoint is there when a run goes on from it
    if is_live:
        strategy.save(checkpoint, path)
    else:
        strategy.checkpoint_io.save(checkpoint, path)
        strategy.checkpoint_io.wait()  # nobody comes later who could be told


def _within_batches(context: Context, path: object) -> TrainerError:
    ranks = context.strategy.ranks
    return TrainerError(
        "trainer.save-within",
        f"save_checkpoint within a batch of the {context.phase} loop, on {ranks.world_size} ranks",
        values={"path": str(path), "rank": ranks.rank},
        because="ranks may have different numbers of batches there, and all of them are needed at once",
        hint=f"save in on_{context.phase}_epoch_end or on_{context.phase}_end",
    )


def _plain_of(datamodule: DataModule | None) -> dict[str, Any]:
    return {} if datamodule is None else split_plain(datamodule.hparams, ())[0]


def _training_state(context: Context, *, is_live: bool) -> dict[str, Any]:
    strategy = context.strategy
    if is_live:
        gather_ranks(context)
    everybody = context.of_ranks
    context.progress.is_stopping = _is_held_back(context)
    states = {callback.state_key: callback.state_dict() for callback in context.callbacks}
    return {
        "optimizer_states": [strategy.optimizer_state(one) for one in context.optimizers],
        "lr_schedulers": [one.scheduler.state_dict() for one in context.schedulers],
        "loops": {
            "fit": {
                "progress": context.progress.state_dict(),
                "logged": [one["logged"] for one in everybody],
                "windows": [one["windows"] for one in everybody],
                "data": [one["data"] for one in everybody],
                "is_exact": bool(everybody) and not context.in_step,
                # Without every rank's gradients an open window cannot go on; its batches are lost.
                "window": [window.state_dict() for window in context.windows if everybody],
                "metrics": context.results.metrics_state(),
                "names": context.results.names_state(),
                "functions": {
                    name: context.results.by_functions(phase, [one[name] for one in everybody])
                    for name, phase in LOGGED.items()
                },
                "hooked": [one["hooked"] for one in everybody],
                "meters": [one["meters"] for one in everybody],
                "strategies": [one["strategy"] for one in everybody],
                "switches": {"begun": context.begun_with, "now": switches_of(context.module, context.modes)},
                "loaded": context.loaded,
                "precision": strategy.precision.state_dict(),
            }
        },
        "callbacks": {key: state for key, state in states.items() if state},
        "datamodule": context.datamodule.state_dict() if context.datamodule is not None else {},
        "rng": [one["rng"] for one in everybody],
    }


def _is_held_back(context: Context) -> bool:
    """Whether the fit is to stop, on any rank, and may not yet.

    A fit that may has stopped here: to go on from there is the user's wish.
    """
    run, progress = context.run, context.progress
    if not (run.should_stop or any(one["asks_to_stop"] for one in context.of_ranks)):
        return False
    epochs = progress.epoch + progress.is_done
    return epochs < run.min_epochs or progress.global_step < run.min_steps


def gather_ranks(context: Context) -> None:
    """Bring to rank 0 what each rank has of its own: random state, logged values, gradients not yet used.

    Collectives:
        one gather; every rank must call.
    """
    strategy = context.strategy
    mine = {
        **(context.before_validation or passing(context)),
        "data": context.data_state(),
        **{name: context.results.state_dict(phase) for name, phase in LOGGED.items()},
        "windows": pending.state(context),
        "strategy": strategy.rank_state(context.module),
        "asks_to_stop": bool(context.run.should_stop),
    }
    if strategy.ranks.world_size == 1:
        context.of_ranks = [mine]
    else:
        context.of_ranks = strategy.collectives.gather_object(mine) or []


def passing(context: Context) -> dict[str, Any]:
    """Return what this rank has that a validation changes: it is run again, from the same."""
    return {"rng": context.strategy.rng_state(), "meters": meters_of(context.module)}


def keep_cut(context: Context) -> None:
    """Keep, after a failure, what there is of the run: everything on one rank; on several rank 0 is alone."""
    context.of_ranks, context.in_batches = [], False
    if context.strategy.ranks.world_size == 1 and context.stepped:
        gather_ranks(context)
