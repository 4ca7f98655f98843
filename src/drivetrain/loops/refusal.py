"""The errors of a fit's loops and of what is logged in them."""

from __future__ import annotations

from typing import Any

from drivetrain.base.errors import DataError, ModuleError
from drivetrain.data import Feed


def beyond(interval: int, total: int) -> DataError:
    """Return the error for an interval in batches that is longer than an epoch."""
    return DataError(
        "data.val-interval",
        f"val_check_interval={interval} batches, and an epoch has {total}",
        values={"val_check_interval": interval, "batches": total, "check_val_every_n_epoch": 1},
        because="counted anew in each epoch, it would never come",
        hint="pass check_val_every_n_epoch=None, which counts over epochs' ends",
    )


def no_part(name: str, part: float) -> DataError:
    """Return the error for a part of what has no length."""
    return DataError(
        "data.val-interval",
        f"{name}={part} of an epoch whose length nobody knows",
        values={name: part},
        because="a part needs a whole",
        hint="count in steps: pass '500 steps'",
    )


def nothing_read(feed: Feed) -> DataError:
    """Return the error for an epoch without a batch."""
    return DataError(
        "data.empty",
        "the training loader gave no batch",
        values={"batches": feed.num_batches},
        because="an epoch has at least one step",
        hint="check the dataset's length, drop_last and limit_train_batches",
    )


def nowhere(name: str) -> ModuleError:
    """Return the error for a value that is logged where no step and no epoch is."""
    return ModuleError(
        "module.log-outside",
        f"self.log({name!r}, ...) where no value is kept",
        values={"name": name},
        because="what is logged before the first epoch, after the last one or in predict belongs to no step "
        "and to no epoch, so that nothing would reduce or write it",
        hint="log it from on_train_start on and up to on_train_epoch_end, or give it to the logger itself: "
        "self.logger.log_metrics({...})",
    )


def not_kept(name: str, *, on_step: bool) -> ModuleError:
    """Return the error for a value that is kept neither of a batch nor of an epoch."""
    return ModuleError(
        "module.log-options",
        f"self.log({name!r}, ...) with on_step={on_step} and on_epoch=False, outside of a step"
        if on_step
        else f"self.log({name!r}, ...) with on_step=False and on_epoch=False",
        values={"on_step": on_step, "on_epoch": False},
        because="a value is kept of a batch or of an epoch, and hooks around an epoch have no batch",
        hint="leave on_epoch out, or pass on_epoch=True",
    )


def collection(name: str, value: Any) -> ModuleError:
    """Return the error for several values under one name."""
    return ModuleError(
        "module.log-value",
        f"self.log({name!r}, ...) got a {type(value).__name__}, which has several values",
        values={"name": name, "values": sorted(map(str, value.keys()))},
        because="a value has one name",
        hint="log each under its own: self.log_dict(collection)",
    )
