"""Checkpoints that Lightning 1.9 and 2.6 wrote (``checkpoint_io/data/make_lightning.py``) load, and go on."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import drivetrain as dt
from drivetrain.loops.lightning import from_lightning, is_lightnings, to_lightning
from tests.loops.models import Regression, loader, quiet

DATA = Path(__file__).parents[1] / "checkpoint_io" / "data"
BOTH = pytest.mark.parametrize("version", ["1.9", "2.6"])
FOREIGN = pytest.mark.filterwarnings("ignore:.*checkpoint.foreign")
LOAD = dt.LocalCheckpointIO().load


class Net(dt.Module):
    """As in the script that made them."""

    def __init__(self, lr: float = 0.02, hidden: int = 3, name: str = "net") -> None:
        super().__init__()
        self.save_hyperparameters()
        self.net = torch.nn.Sequential(
            torch.nn.Linear(4, hidden), torch.nn.Tanh(), torch.nn.Linear(hidden, 1)
        )

    def loss(self, batch: Any) -> torch.Tensor:
        x, y = batch
        return ((self.net(x) - y) ** 2).mean()

    def training_step(self, batch, batch_idx):
        loss = self.loss(batch)
        self.log("loss", loss, on_step=True, on_epoch=True)
        return loss

    def validation_step(self, batch, batch_idx):
        self.log("val", self.loss(batch))

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=self.hparams.lr)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)]


class OfObjects(Net):
    def __init__(self, args: argparse.Namespace, folder: Path) -> None:
        super().__init__()
        self.args, self.folder = args, folder


def data() -> DataLoader:
    x = torch.randn(20, 4, generator=torch.Generator().manual_seed(3))
    return DataLoader(TensorDataset(x, x.sum(1, keepdim=True).sin()), 4)


def path_of(version: str, kind: str) -> Path:
    return DATA / f"lightning_{version}_{kind}"


class Seen(dt.Callback):
    def __init__(self) -> None:
        self.batches: list[tuple[int, int]] = []

    def on_train_batch_start(self, trainer, module, batch, batch_idx):
        self.batches.append((trainer.current_epoch, batch_idx))


@BOTH
@FOREIGN
@pytest.mark.parametrize(("kind", "begins"), [("within.ckpt", (1, 2)), ("epoch.ckpt", (2, 0))])
def test_a_run_of_lightning_goes_on_to_the_same_weights(
    tmp_path: Path, version: str, kind: str, begins: tuple[int, int]
) -> None:
    stops, saves, timer = (
        dt.EarlyStopping("val", patience=9),
        dt.ModelCheckpoint(tmp_path, monitor="val"),
        dt.Timer(),
    )
    module, seen = Net(), Seen()
    trainer = quiet(max_epochs=4, callbacks=[seen, stops, saves, timer])
    result = trainer.fit(module, data(), data(), ckpt_path=path_of(version, kind))
    end = torch.load(path_of(version, "end.pt"), weights_only=True)
    for name, weight in module.state_dict().items():
        torch.testing.assert_close(weight, end[name])
    assert seen.batches[0] == begins
    assert (result.epochs, result.steps) == (4, 20)
    assert timer.time_elapsed() > 0.05  # with what training had taken there
    assert float(stops.best_score) < 0.6


@BOTH
def test_the_states_of_callbacks_are_found_by_what_their_keys_say(version: str) -> None:
    class Stop(dt.Callback):
        def on_train_start(self, trainer, module):
            trainer.should_stop = True

    stops, other = dt.EarlyStopping("val", patience=9), dt.EarlyStopping("loss_epoch", patience=9)
    saves = dt.ModelCheckpoint("somewhere", monitor="val", save_top_k=3)
    trainer = quiet(max_epochs=4, callbacks=[stops, other, saves, Stop()])
    with pytest.warns(dt.DrivetrainWarning, match=rf"checkpoint.foreign\] .*written by Lightning {version}"):
        trainer.fit(Net(), data(), data(), ckpt_path=path_of(version, "epoch.ckpt"))
    assert float(stops.best_score) == pytest.approx(0.6139, abs=1e-4)
    assert float(other.best_score) == float("inf")
    assert float(saves.current_score) == pytest.approx(0.6139, abs=1e-4)


@BOTH
@pytest.mark.filterwarnings("ignore:.*module.hyperparameters")
def test_weights_and_hyperparameters_are_loaded(version: str) -> None:
    module = Net.load_from_checkpoint(path_of(version, "within.ckpt"), lr=0.5)
    assert (module.hparams.lr, module.hparams.hidden) == (0.5, 3)
    kept = LOAD(path_of(version, "within.ckpt"))["state_dict"]
    assert all(torch.equal(weight, kept[name]) for name, weight in module.state_dict().items())
    module = OfObjects.load_from_checkpoint(path_of(version, "objects.ckpt"))
    assert module.args == argparse.Namespace(depth=2)
    assert module.folder == Path("somewhere")
    assert quiet().validate(module, data(), ckpt_path=path_of(version, "within.ckpt"))[0]["val"] < 1


@BOTH
@pytest.mark.parametrize("kind", ["within.ckpt", "epoch.ckpt"])
def test_its_form_and_ours_lead_to_each_other(version: str, kind: str) -> None:
    theirs = LOAD(path_of(version, kind))
    assert is_lightnings(theirs)
    ours = from_lightning(theirs, "a.ckpt", world_size=1)
    assert not is_lightnings(ours)
    ours.pop("pytorch-lightning_version")
    ours["callbacks"]["Mine(x=1)"] = {"y": 2}
    back = to_lightning(ours, "a.ckpt")
    assert is_lightnings(back)
    again = from_lightning(back, "a.ckpt", world_size=1)
    assert again["loops"]["fit"] == ours["loops"]["fit"]
    assert again["global_step"] == theirs["global_step"]
    assert "Timer" in back["callbacks"]
    assert "Mine(x=1)" not in back["callbacks"]
    assert "rng" not in back
    assert to_lightning(theirs, "a.ckpt") == theirs


def test_several_optimizers_and_ranks_are_counted_as_here() -> None:
    theirs = LOAD(path_of("2.6", "within.ckpt"))
    theirs["optimizer_states"] *= 2
    theirs["global_step"] *= 2
    ours = from_lightning(theirs, "a.ckpt", world_size=2)
    progress = ours["loops"]["fit"]["progress"]
    assert (ours["global_step"], progress["global_step"], progress["batches"], progress["steps"]) == (
        7,
        7,
        4,
        2,
    )
    assert (
        to_lightning({**ours, "pytorch-lightning_version": "x", "loops": {"fit": ours["loops"]["fit"]}}, "a")[
            "global_step"
        ]
        == 14
    )


@FOREIGN
def test_the_scale_of_a_loss_goes_both_ways(tmp_path: Path) -> None:
    trainer = quiet(max_steps=2, precision="16-mixed")
    trainer.fit(Regression(), loader())
    trainer.save_checkpoint(tmp_path / "a.ckpt")
    theirs = to_lightning(torch.load(tmp_path / "a.ckpt", weights_only=True), "a.ckpt")
    kept = theirs["MixedPrecision"]
    assert torch.amp.GradScaler("cpu").state_dict().keys() == kept.keys()
    old = {name: value for name, value in theirs.items() if name != "MixedPrecision"}
    for one in (theirs, {**old, "MixedPrecisionPlugin": kept}):
        ours = from_lightning(one, "a.ckpt", 1)
        assert ours["loops"]["fit"]["precision"] == kept
        assert ours["datamodule"] == {}
    torch.save({**theirs, "MixedPrecision": {**kept, "scale": 256.0}}, tmp_path / "b.ckpt")
    resumed = quiet(max_steps=4, precision="16-mixed")
    resumed.fit(Regression(), loader(), ckpt_path=tmp_path / "b.ckpt")
    assert resumed.precision_plugin.scale == 256.0


@FOREIGN
@pytest.mark.parametrize("name", ["epoch_progress", "epoch_loop.batch_progress"])
def test_what_is_damaged_in_them_is_named(tmp_path: Path, name: str) -> None:
    theirs = LOAD(path_of("2.6", "epoch.ckpt"))
    theirs["loops"]["fit_loop"][name]["current"]["ready"] = "x"
    torch.save(theirs, tmp_path / "a.ckpt")
    with pytest.raises(dt.CheckpointError, match=rf"fit_loop.{name}.current.ready is a str"):
        quiet(max_epochs=4).fit(Net(), data(), ckpt_path=tmp_path / "a.ckpt")


def test_ours_without_a_state_is_not_made_theirs() -> None:
    with pytest.raises(dt.CheckpointError, match=r"checkpoint.no-training-state"):
        to_lightning({"state_dict": {}}, "a.ckpt")
