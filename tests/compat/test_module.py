"""Modules log, gather and step by hand as Lightning's users know it."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import dataclass

import pytest
import torch
from torch.utils.data import DataLoader

import drivetrain as dt
import drivetrain.compat.lightning as L  # noqa: N812 - as its users write it
from drivetrain.compat.boring import BoringModel
from tests.loops.models import data, quiet


class Net(L.LightningModule):
    def __init__(self, width: int = 4, lr: float = 0.1) -> None:
        super().__init__()
        self.save_hyperparameters(ignore="lr")
        self.net = torch.nn.Linear(width, 1)

    def training_step(self, batch, batch_idx):
        loss = self.net(batch[0]).square().mean()
        self.log("loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)


def loader(num_batches: int = 3) -> DataLoader:
    return DataLoader(data(4 * num_batches), 4)


def test_a_step_can_be_called_outside_of_a_run():
    with pytest.warns(UserWarning, match="outside of a run"):
        assert Net().training_step([torch.ones(2, 4)], 0).shape == ()
    with pytest.raises(RuntimeError, match=r"module\.no-trainer") as found:
        _ = Net().trainer
    assert isinstance(found.value, dt.ModuleError)


def test_a_trainer_can_be_put_in_place():
    net = Net()
    net.trainer = Namespace(current_epoch=3, global_step=7)
    assert (net.trainer.current_epoch, net.current_epoch, net.global_step) == (3, 3, 7)


def test_one_ranks_tensors_are_gathered_as_they_are():
    shapes = []

    class Gathers(Net):
        def training_step(self, batch, batch_idx):
            shapes.append(self.all_gather(batch[0], sync_grads=True).shape)
            return super().training_step(batch, batch_idx)

    quiet(max_steps=1).fit(Gathers(), loader())
    assert shapes == [(4, 4)]


def test_backward_by_hand_takes_the_arguments_of_backward():
    class ByHand(Net):
        def __init__(self) -> None:
            super().__init__()
            self.automatic_optimization = False

        def training_step(self, batch, batch_idx):
            loss = self.net(batch[0]).square().mean()
            self.manual_backward(loss, retain_graph=True)
            once = self.net.weight.grad.clone()
            self.manual_backward(loss)
            assert torch.equal(self.net.weight.grad, 2 * once)
            assert "backward" not in vars(self)
            self.optimizers().step()
            self.optimizers().zero_grad()

    quiet(max_steps=2).fit(ByHand(), loader())


def test_hooks_that_are_overridden_reach_what_they_override():
    calls = []

    class Overrides(Net):
        def optimizer_step(self, epoch, batch_idx, optimizer, optimizer_closure=None):
            calls.append("step")
            super().optimizer_step(epoch, batch_idx, optimizer, optimizer_closure)

        def backward(self, loss, *args, **kwargs):
            calls.append("backward")
            super().backward(loss, *args, **kwargs)

        def lr_scheduler_step(self, scheduler, metric):
            calls.append("scheduler")
            super().lr_scheduler_step(scheduler, metric)

        def optimizer_zero_grad(self, epoch, batch_idx, optimizer):
            calls.append("zero")
            super().optimizer_zero_grad(epoch, batch_idx, optimizer)

        def transfer_batch_to_device(self, batch, device, dataloader_idx):
            calls.append("move")
            return super().transfer_batch_to_device(batch, device, dataloader_idx)

        def configure_optimizers(self):
            optimizer = super().configure_optimizers()
            scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
            return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}

    net = Overrides()
    before = net.net.weight.clone()
    quiet(max_steps=1).fit(net, loader())
    assert calls == ["move", "step", "zero", "backward", "scheduler"]
    assert not torch.equal(net.net.weight, before)


def test_a_method_of_ones_own_may_look_like_a_hook():
    class Helper(Net):
        def train_step(self, batch):
            return self.net(batch[0])

    with pytest.warns(dt.DrivetrainWarning, match="train_step is not a hook"):
        quiet(max_steps=1).fit(Helper(), loader())

    class Gone(Net):
        def training_epoch_end(self, outputs):
            pass

    with pytest.raises(NotImplementedError, match="on_train_epoch_end"):
        quiet(max_steps=1).fit(Gone(), loader())


def test_hyperparameters_are_read_of_what_users_pass():
    @dataclass
    class Config:
        width: int = 3

    class OfOne(L.LightningModule):
        def __init__(self, given) -> None:
            super().__init__()
            self.save_hyperparameters(given)

    assert dict(Net(5).hparams) == {"width": 5}
    assert OfOne(Namespace(width=2)).hparams.width == 2
    assert OfOne(Config()).hparams.width == 3
    assert OfOne({"width": 4}).hparams.width == 4


def test_a_checkpoint_loads_with_its_arguments(tmp_path):
    trainer = quiet(max_steps=1)
    net = Net(4)
    trainer.fit(net, loader())
    trainer.save_checkpoint(tmp_path / "a.ckpt")
    again = Net.load_from_checkpoint(tmp_path / "a.ckpt", map_location="cpu", weights_only=None)
    assert torch.equal(again.net.weight, net.net.weight)


def test_prediction_is_what_forward_makes_of_the_whole_batch():
    class Pairs(BoringModel):
        def forward(self, batch):
            return batch["a"] + batch["b"]

    batch = {"a": torch.ones(2, 3), "b": torch.ones(2, 3)}
    assert torch.equal(Pairs().predict_step(batch, 0), torch.full((2, 3), 2.0))
    found = quiet().predict(Pairs(), DataLoader([{"a": torch.ones(1), "b": torch.ones(1)}], 1))
    assert found[0].tolist() == [[2.0]]
