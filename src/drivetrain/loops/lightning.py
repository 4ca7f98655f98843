"""Lightning's checkpoints: what of them a fit goes on from, and ours in their form.

Weights, optimizers, schedulers, counters and the states of callbacks are there, in another form. The random
state and what the epoch had logged are not; a run that goes on from such a file draws other numbers.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from drivetrain.base.errors import CheckpointError
from drivetrain.base.tree import map_leaves
from drivetrain.checkpoint_io.entry import Entry
from drivetrain.loops.progress import Progress

VERSION = "pytorch-lightning_version"
_SCALERS = ("MixedPrecision", "MixedPrecisionPlugin", "NativeMixedPrecisionPlugin")
"""Under which the state of the loss scaler is there, torch's own, by release."""
_WRITTEN_AS = "2.6.1"
"""The release whose form ours is given; those before 2.0 find theirs in it too."""


def is_lightnings(checkpoint: Mapping[str, Any]) -> bool:
    """Whether Lightning wrote it, with a state that a fit goes on from."""
    loops = checkpoint.get("loops")
    return VERSION in checkpoint and isinstance(loops, Mapping) and "fit_loop" in loops and "fit" not in loops


def from_lightning(checkpoint: Mapping[str, Any], path: object, world_size: int) -> dict[str, Any]:
    """Return a checkpoint of Lightning with what ours have beside.

    ``world_size``: ranks of the run that saved it, which the file does not say.

    Raises:
        CheckpointError [checkpoint.damaged]: an entry is missing, or is not what it should be.
    """
    top = Entry(checkpoint, path)
    steps = top["global_step"].integer()
    num_optimizers = len(top["optimizer_states"].sequence())
    # There it is the sum over optimizers.
    steps //= max(1, num_optimizers)
    progress = _progress(top["loops"]["fit_loop"], steps, world_size)
    fit: dict[str, Any] = {
        "progress": progress.state_dict(),
        **{name: [] for name in ("logged", "windows", "data", "window")},
        "is_exact": False,
        "metrics": {},
        "precision": next((checkpoint[name] for name in _SCALERS if checkpoint.get(name)), {}),
    }
    others = {name: value for name, value in checkpoint.items() if _is_state_of_data(name, value)}
    kept = checkpoint.get("callbacks", {})
    return {
        **checkpoint,
        "callbacks": map_leaves(kept, lambda one: str(one) if isinstance(one, PurePath) else one),
        "global_step": steps,
        "loops": {**top["loops"].mapping(), "fit": fit},
        "datamodule": next(iter(others.values()), {}),
        "rng": [],
    }


def _is_state_of_data(name: str, value: object) -> bool:
    """Whether an entry is a data module's, which Lightning calls by its class."""
    known = {
        "hyper_parameters",
        "datamodule_hyper_parameters",
        "loops",
        "callbacks",
        "state_dict",
        *_SCALERS,
    }
    return name[:1].isupper() and name not in known and isinstance(value, Mapping)


def _progress(loop: Entry, global_step: int, world_size: int) -> Progress:
    epoch = _counts(loop["epoch_progress"]["current"])
    batches = loop["epoch_loop.batch_progress"]
    current, total = _counts(batches["current"]), _counts(batches["total"])
    is_last = bool(batches.mapping().get("is_last_batch"))
    is_done = epoch["ready"] > 0 and epoch["processed"] == epoch["ready"]
    found = Progress(
        epoch=max(epoch["ready"] - 1, 0),
        global_step=global_step,
        batches=current["processed"] * world_size,
        steps=current["processed"],
        seen=total["processed"],
        is_done=is_done,
        is_started=is_done,
        is_trained=is_done or is_last,
    )
    # At a batch's end its validation is still to come; in a validation the batch is completed.
    if is_last and current["completed"] == current["processed"]:
        found.validated_at = found.seen
    return found


def _counts(entry: Entry) -> dict[str, int]:
    ready, completed = entry["ready"].integer(), entry["completed"].integer()
    processed = entry["processed"].integer() if "processed" in entry.mapping() else completed
    return {"ready": ready, "completed": completed, "processed": processed}


def state_of(callback: Any, kept: Entry) -> Entry | None:
    """Return the state that a checkpoint has for a callback, under our key or Lightning's; None for none."""
    if callback.state_key in kept.mapping():
        return kept[callback.state_key]
    for key, entry in kept.named():
        name, told = _read_key(key)
        if told and name == type(callback).__qualname__ and _fits(callback, told):
            return entry
    return None


def _read_key(key: str) -> tuple[str, Mapping[str, Any]]:
    """Return class and arguments of ``EarlyStopping{'monitor': 'val', 'mode': 'min'}``."""
    name, brace, rest = key.partition("{")
    try:
        told = ast.literal_eval(brace + rest) if brace and len(key) < 10_000 else {}  # noqa: PLR2004 - a key is short
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return name, {}
    return name, told if isinstance(told, dict) else {}


def _fits(callback: Any, told: Mapping[str, Any]) -> bool:
    return all(getattr(callback, name, None) == told[name] for name in ("monitor", "mode") if name in told)


def to_lightning(checkpoint: Mapping[str, Any], path: object) -> dict[str, Any]:
    """Return a checkpoint of ours as Lightning reads it: of one rank's view, without what it does not have.

    Raises:
        CheckpointError [checkpoint.no-training-state]: it is neither ours nor Lightning's, or weights only.
        CheckpointError [checkpoint.damaged]: an entry is missing, or is not what it should be.
    """
    if is_lightnings(checkpoint):
        return dict(checkpoint)
    loops = checkpoint.get("loops")
    if not isinstance(loops, Mapping) or "fit" not in loops:
        raise CheckpointError(
            "checkpoint.no-training-state",
            f"{path} has no state that Lightning could go on from",
            values={"path": str(path), "holds": sorted(map(str, checkpoint))},
            because="Lightning's form has optimizers and counters beside the weights",
            hint="convert it to a state_dict, which holds the weights only",
        )
    top = Entry(checkpoint, path)
    progress = Progress()
    with top["loops"]["fit"]["progress"].reading():
        vars(progress).update({**progress.state_dict(), **top["loops"]["fit"]["progress"].mapping()})
    ours = ("plan", "drivetrain_version", "torch_version", "rng", "datamodule", "datamodule_hyper_parameters")
    # There it is the sum over optimizers.
    progress.global_step *= max(1, len(top["optimizer_states"].sequence()))
    scaler = top["loops"]["fit"]["precision"].mapping()
    return {
        **{name: value for name, value in checkpoint.items() if name not in ours},
        "epoch": progress.epoch,
        "global_step": progress.global_step,
        VERSION: _WRITTEN_AS,
        **({_SCALERS[0]: scaler} if scaler else {}),
        "hparams_name": checkpoint.get("hparams_name", "kwargs"),
        "loops": {"fit_loop": _fit_loop(progress)},
        # Those of one class and several settings have keys of another form; they begin anew there.
        "callbacks": {key: value.value for key, value in top["callbacks"].named() if "(" not in key},
    }


def _fit_loop(progress: Progress) -> dict[str, Any]:
    done = progress.epoch + progress.is_done
    ready = max(done, progress.epoch + (progress.is_started or progress.steps > 0))
    epoch = {"ready": ready, "started": ready, "processed": done, "completed": progress.epoch}
    steps = {"ready": progress.steps, "started": progress.steps}
    steps |= {"processed": progress.steps, "completed": progress.steps}
    seen = dict.fromkeys(steps, progress.seen)
    stepped = dict.fromkeys(("ready", "completed"), progress.global_step)
    zeroed = dict.fromkeys(("ready", "started", "completed"), progress.global_step)
    none = {"ready": 0, "completed": 0}
    of_optimizer = {
        "step": {"total": stepped, "current": dict(none)},
        "zero_grad": {"total": zeroed, "current": dict.fromkeys(zeroed, 0)},
    }
    by_hand = {"total": dict(stepped), "current": dict(none)}
    return {
        "state_dict": {},
        "epoch_progress": {"total": epoch, "current": dict(epoch)},
        "epoch_loop.state_dict": {"_batches_that_stepped": progress.global_step},
        "epoch_loop.batch_progress": {"total": seen, "current": steps, "is_last_batch": progress.is_trained},
        "epoch_loop.scheduler_progress": {"total": dict(none), "current": dict(none)},
        "epoch_loop.automatic_optimization.state_dict": {},
        "epoch_loop.automatic_optimization.optim_progress": {"optimizer": of_optimizer},
        "epoch_loop.manual_optimization.state_dict": {},
        "epoch_loop.manual_optimization.optim_step_progress": by_hand,
        "epoch_loop.val_loop.state_dict": {},
        # The same for releases before 2.0.
        "epoch_loop.batch_loop.state_dict": {},
        "epoch_loop.batch_loop.optimizer_loop.state_dict": {},
        "epoch_loop.batch_loop.optimizer_loop.optim_progress": {
            "optimizer": of_optimizer,
            "optimizer_position": 1,
        },
        "epoch_loop.batch_loop.manual_loop.state_dict": {},
        "epoch_loop.batch_loop.manual_loop.optim_step_progress": by_hand,
    }
