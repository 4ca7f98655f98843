"""A checkpoint that can be read and is not whole: an error that names the entry, whatever entry it is."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import drivetrain as dt
from drivetrain.checkpoint_io.entry import Entry
from drivetrain.loops.kept import load_optimizer, load_scheduler
from tests.loops.models import Regression, loader, quiet


class Net(Regression):
    def configure_optimizers(self):
        optimizer = super().configure_optimizers()
        plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=3)
        one_cycle = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.05, total_steps=60)
        return [optimizer], [
            {"scheduler": plateau, "monitor": "val"},
            {"scheduler": one_cycle, "interval": "step"},
        ]


class SaveAt(dt.Callback):
    """Saves within a window of the second epoch."""

    is_last = True

    def __init__(self, path: Path) -> None:
        self.path = path

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        if trainer.current_epoch == 1 and batch_idx == 2:
            trainer.save_checkpoint(self.path)


def fit(folder: Path, ckpt_path: Path | None = None) -> None:
    callbacks = [
        dt.ModelCheckpoint(folder / "kept", monitor="val"),
        dt.EarlyStopping("val", patience=9),
        dt.Timer(),
        dt.SpikeDetection(warmup=99),
        SaveAt(folder / "a.ckpt"),
    ]
    trainer = quiet(
        max_steps=6,
        callbacks=callbacks,
        accumulate_grad_batches=2,
        log_every_n_steps="5 samples",
        limit_train_batches=4,
    )
    trainer.fit(Net(), loader(20), loader(8), ckpt_path=ckpt_path)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the way to every entry, containers too; of the plan and of long lists only the first."""
    if path:
        yield path
    if path == ("plan",):
        return
    if isinstance(value, dict):
        for key, kept in value.items():
            yield from places(kept, (*path, key))
    elif isinstance(value, (list, tuple)):
        for index, kept in enumerate(value[:2] if len(value) > 8 else value):
            yield from places(kept, (*path, index))


def changed(whole: dict[str, Any], path: tuple[Any, ...], change: str) -> dict[str, Any] | None:
    """Return a copy in which one entry is another; None where the change does not apply."""
    broken = copy.deepcopy(whole)
    holder = broken
    for key in path[:-1]:
        holder = holder[key]
    if isinstance(holder, tuple):
        return None
    value = holder[path[-1]]
    if change == "deleted":
        del holder[path[-1]]
    elif change == "another kind":
        holder[path[-1]] = [1] if isinstance(value, str) else "x"
    elif isinstance(value, torch.Tensor) and change == "another shape":
        holder[path[-1]] = torch.zeros([*value.shape, 3], dtype=value.dtype)
    elif isinstance(value, (list, dict)) and value and change == "another shape":
        holder[path[-1]] = type(value)()
    else:
        return None
    return broken


def told(folder: Path, whole: dict[str, Any], path: tuple[Any, ...], change: str) -> str:
    """Return what is wrong with the answer to a changed entry; empty for nothing."""
    broken = changed(whole, path, change)
    if broken is None:
        return ""
    what = f"{'.'.join(map(str, path))} {change}"
    torch.save(broken, folder / "broken.ckpt")
    try:
        fit(folder, folder / "broken.ckpt")
    except dt.CheckpointError as error:
        is_named = any(str(key) in str(error) for key in path if type(key) is str)
        return "" if is_named else f"{what}: not named: {error.message}"
    except Exception as error:  # noqa: BLE001 - what must not come out
        return f"{what}: {type(error).__name__}: {error}"
    return "" if change == "deleted" or _is_free(path) else f"{what}: taken up"


def _is_free(path: tuple[Any, ...]) -> bool:
    """Whether an entry may have any value: nothing goes on from it, or it says nothing where it is empty."""
    name = ".".join(map(str, path))
    unread = (
        "epoch",
        "plan",
        "drivetrain_version",
        "torch_version",
        "hyper_parameters",
        "datamodule_hyper_parameters",
    )
    of_checkpoint = ("best_model", "kth_", "monitor", "last_model", "shelf.scores", "shelf.files")
    may_be_empty = (
        "callbacks",
        "callbacks.Timer.time_elapsed",
        "callbacks.SpikeDetection.losses",
        "loops.fit.progress.passed",
    )
    return (
        path[0] in unread
        or name in may_be_empty
        or name.endswith(("state", "logged.0", "metrics", "min_lrs", "validate", "latest"))
        or path[2:3] in (("names",), ("switches",))  # an empty list says nothing
        or path[-2:-1] == ("state",)
        or path[-3:-1] == ("loss", "said")
        or ("ModelCheckpoint" in name and any(part in name.partition(")")[2] for part in of_checkpoint))
    )


@pytest.mark.filterwarnings("ignore:.*checkpoint.inexact")
@pytest.mark.parametrize(
    "part", [0, pytest.param(1, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.slow)]
)
def test_every_entry_of_a_checkpoint_deleted_or_changed(tmp_path: Path, part: int) -> None:
    """An error that names it, or nothing where the entry may be absent; each part changes each entry once."""
    fit(tmp_path)
    whole = torch.load(tmp_path / "a.ckpt", weights_only=True)
    assert whole["loops"]["fit"]["windows"][0]
    assert len(whole["loops"]["fit"]["logged"][0]) == 1
    fit(tmp_path, tmp_path / "a.ckpt")
    changes = ("deleted", "another kind", "another shape")
    found = [
        told(tmp_path, whole, path, changes[(index + part) % 3]) for index, path in enumerate(places(whole))
    ]
    wrong = [one for one in found if one]
    assert not wrong, "\n".join(wrong)
    assert len(found) > 150


def test_an_optimizer_of_ones_own_is_not_tried(tmp_path: Path) -> None:
    class Own(torch.optim.SGD):
        def step(self, closure=None):
            raise AssertionError

    optimizer = Own([torch.nn.Parameter(torch.zeros(2))], lr=0.1)
    entry = Entry(optimizer.state_dict(), "a.ckpt", "optimizer_states[0]")
    load_optimizer(optimizer, entry, lambda one, state: one.load_state_dict(state))


@pytest.mark.parametrize(
    "kind", [torch.optim.Adam, torch.optim.SGD, torch.optim.Adafactor, torch.optim.RMSprop]
)
def test_a_tried_step_leaves_no_trace(kind: type) -> None:
    weights = [
        torch.nn.Parameter(torch.ones(3, 2)),
        torch.nn.Parameter(torch.ones(3, 2), requires_grad=False),
    ]
    optimizer = kind(weights, lr=0.1, **({"momentum": 0.9} if kind is torch.optim.SGD else {}))
    optimizer.register_step_pre_hook(lambda *_: pytest.fail("a hook was called"))
    weights[0].grad = torch.ones(3, 2)
    kind.step.__wrapped__(optimizer)
    before = copy.deepcopy(optimizer.state_dict())
    kept = weights[0].detach().clone()
    entry = Entry(copy.deepcopy(before), "a.ckpt", "optimizer_states[0]")
    load_optimizer(optimizer, entry, lambda one, state: one.load_state_dict(state))
    assert torch.equal(weights[0], kept)
    assert str(optimizer.state_dict()) == str(before)


def test_a_scheduler_that_an_older_torch_saved_is_taken_up() -> None:
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(2))], lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 3)
    state = {"step_size": 3, "gamma": 0.1, "base_lrs": [0.1], "last_epoch": 2, "_step_count": 3}
    load_scheduler(scheduler, Entry(state, "a.ckpt", "lr_schedulers[0]"))
    assert scheduler.last_epoch == 2
    with pytest.raises(
        dt.CheckpointError, match=r"a.ckpt: lr_schedulers\[0\].base_lrs has 2 items, and not 1"
    ):
        load_scheduler(scheduler, Entry({**state, "base_lrs": [0.1, 0.2]}, "a.ckpt", "lr_schedulers[0]"))
