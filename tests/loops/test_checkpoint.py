from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

import drivetrain as dt
from tests.loops.models import Regression, loader, quiet


class Notes(Regression):
    """Notes what is called, and whether the weights that were saved are there by then."""

    def __init__(self, calls: list[str]) -> None:
        super().__init__()
        self.calls = calls

    def note(self, name: str) -> None:
        is_loaded = bool((self.net[0].weight == 5).all())
        self.calls.append(f"{name}: {'loaded' if is_loaded else 'fresh'}")

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        self.note("module")

    def configure_optimizers(self) -> torch.optim.Optimizer:
        self.note("configure_optimizers")
        return super().configure_optimizers()


class Beside(dt.Callback):
    def state_dict(self) -> dict[str, Any]:
        return {"a": 1}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.module.note("state")

    def setup(self, trainer: dt.Trainer, module: Notes, stage: str) -> None:
        self.module = module

    def on_load_checkpoint(self, trainer: dt.Trainer, module: Notes, checkpoint: dict[str, Any]) -> None:
        module.note(type(self).__name__)


class Saves(Beside):
    is_last = True


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A checkpoint whose first weights are 5."""
    trainer, module = quiet(max_steps=1, callbacks=[Beside()]), Notes([])
    trainer.fit(module, loader())
    torch.nn.init.constant_(module.net[0].weight, 5.0)
    trainer.save_checkpoint(tmp_path / "a.ckpt")
    return tmp_path / "a.ckpt"


def test_the_module_comes_first_and_callbacks_find_the_weights_in_it(saved: Path) -> None:
    calls: list[str] = []
    quiet(max_steps=1, callbacks=[Saves(), Beside()]).fit(Notes(calls), loader(), ckpt_path=saved)
    assert calls == [
        "module: fresh",
        "Beside: loaded",
        "Saves: loaded",
        "configure_optimizers: loaded",
        "state: loaded",
    ]
    calls.clear()
    quiet(callbacks=[Saves(), Beside()]).test(Notes(calls), loader(), ckpt_path=saved)
    assert calls == ["module: fresh", "Beside: loaded", "Saves: loaded", "state: loaded"]


class Replaces(dt.Callback):
    def on_load_checkpoint(self, trainer: dt.Trainer, module: dt.Module, checkpoint: dict[str, Any]) -> None:
        state = checkpoint["state_dict"]
        state["net.0.bias"] = torch.full_like(state["net.0.bias"], 2.0)


class LoadsItself(dt.Callback):
    """As callbacks of Lightning's users do, which replaces nothing in the checkpoint."""

    def on_load_checkpoint(self, trainer: dt.Trainer, module: Regression, checkpoint: dict[str, Any]) -> None:
        torch.nn.init.constant_(module.net[0].bias, 2.0)


@pytest.mark.parametrize("kind", [Replaces, LoadsItself])
def test_weights_that_a_callback_brings_are_those_of_the_run(saved: Path, kind: type[dt.Callback]) -> None:
    module = Notes([])
    quiet(callbacks=[kind()]).test(module, DataLoader(loader().dataset, 4), ckpt_path=saved)
    assert module.net[0].bias.tolist() == [2.0] * 8
    assert module.net[0].weight.tolist() == [[5.0] * 4] * 8


class AsksAt(dt.Callback):
    """Asks to stop after a step, on one rank."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_train_batch_end(self, trainer: dt.Trainer, *_: Any) -> None:
        if trainer.global_step == self.step and trainer.is_global_zero:
            trainer.should_stop = True


def kept_at(path: Path, step: int) -> dt.ModelCheckpoint:
    return dt.ModelCheckpoint(path, filename="{step}", every_n_train_steps=step, save_top_k=-1)


@pytest.mark.parametrize("devices", [1, 2])
@pytest.mark.parametrize("bound", [{"min_epochs": 2}, {"min_steps": 8}])
def test_a_stop_that_is_held_back_is_kept(tmp_path: Path, devices: int, bound: dict[str, int]) -> None:
    module, flags = Regression(), {"max_epochs": 4, "devices": devices, **bound}
    data = loader(20 * devices)
    whole = quiet(callbacks=[AsksAt(2), kept_at(tmp_path, 3)], **flags)
    whole.fit(module, data)
    again = quiet(**flags)
    again.fit(Regression(), data, ckpt_path=tmp_path / "step=3.ckpt")
    # Several ranks stop at the next step that all agree on, at the latest where the epoch ends.
    least = 10 if "min_epochs" in bound else 8
    for trainer in (whole, again):
        assert least <= trainer.global_step <= (least if devices == 1 else 10)


def test_a_fit_that_stopped_goes_on_when_it_is_resumed(tmp_path: Path) -> None:
    saves = dt.ModelCheckpoint(tmp_path, filename="{step}")
    trainer = quiet(max_epochs=2, min_epochs=1, callbacks=[AsksAt(3), saves])
    assert trainer.fit(Regression(), loader(20)).stopped_early
    again = quiet(max_epochs=2)
    again.fit(Regression(), loader(20), ckpt_path=tmp_path / "step=5.ckpt")
    assert again.global_step == 10
