from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import BatchNorm1d, Linear, ModuleDict, Parameter, Sequential

import drivetrain as dt
from tests.callbacks.test_weight_averaging import SaveAt
from tests.loops.models import Regression, differing, loader, quiet

Base = dt.BaseFinetuning


class Own(torch.nn.Module):
    """Has a parameter of its own, and a part."""

    def __init__(self) -> None:
        super().__init__()
        self.scale, self.part = Parameter(torch.ones(1)), Linear(1, 1)


def test_modules_are_flattened_to_those_that_have_parameters_themselves() -> None:
    own, norm = Own(), BatchNorm1d(2)
    nested = Sequential(own, Sequential(norm, torch.nn.ReLU()))
    expected = [own, own.part, norm, nested[1][1]]
    assert Base.flatten_modules(nested) == expected
    assert Base.flatten_modules([own, [nested[1]]]) == expected
    assert Base.flatten_modules(ModuleDict({"a": own, "b": nested[1]})) == expected
    assert Base.flatten_modules([own, own.part]) == expected[:2]


@pytest.mark.parametrize("train_bn", [True, False])
def test_freezing_and_back(train_bn: bool) -> None:
    own, norm = Own(), BatchNorm1d(2)
    Base.freeze([own, norm], train_bn=train_bn)
    assert not any(one.requires_grad for one in own.parameters())
    assert all(one.requires_grad == train_bn for one in norm.parameters())
    assert norm.track_running_stats is train_bn
    assert [*Base.filter_params([own, norm])] == ([*norm.parameters()] if train_bn else [])
    assert [*Base.filter_params([own, norm], train_bn=False)] == []
    assert [*Base.filter_params(own, requires_grad=False)] == [own.scale, *own.part.parameters()]
    Base.make_trainable([own, norm])
    assert norm.track_running_stats
    assert len([*Base.filter_params([own, norm])]) == 5
    assert len([*Base.filter_params([own, norm], train_bn=False)]) == 3
    Base.freeze_module(own)
    assert (own.scale.requires_grad, own.part.weight.requires_grad) == (False, True)


def test_a_group_is_added_with_its_rate() -> None:
    first, second, third = Linear(1, 1), Linear(1, 1), Linear(1, 1)
    Base.freeze([second, third])
    optimizer = torch.optim.SGD(first.parameters(), lr=0.4)
    Base.unfreeze_and_add_param_group(second, optimizer)
    Base.unfreeze_and_add_param_group([third], optimizer, lr=0.3, initial_denom_lr=7)
    assert [group["lr"] for group in optimizer.param_groups] == pytest.approx([0.4, 0.04, 0.3])
    assert optimizer.param_groups[2]["params"] == [*third.parameters()]
    assert all(one.requires_grad for one in (*second.parameters(), *third.parameters()))


def test_parameters_that_the_optimizer_has_stay_where_they_are() -> None:
    first, second, norm = Linear(1, 1), Linear(1, 1), BatchNorm1d(1)
    second.weight.requires_grad_(False)
    optimizer = torch.optim.SGD([*first.parameters(), second.weight, *norm.parameters()], lr=0.4)
    with pytest.warns(dt.DrivetrainWarning, match=r"callback.already-optimized.*1 of 2 parameters"):
        Base.unfreeze_and_add_param_group(second, optimizer)
    assert optimizer.param_groups[1]["params"] == [second.bias]
    Base.unfreeze_and_add_param_group(norm, optimizer)  # what was trained all along is no surprise
    assert len(optimizer.param_groups) == 2


class Staged(dt.BaseFinetuning):
    """Trains the last layer; from epoch 1 the first too, from epoch 2 the norm."""

    def freeze_before_training(self, pl_module):
        self.freeze([pl_module.net[0], pl_module.norm], train_bn=False)

    def finetune_function(self, pl_module, epoch, optimizer):
        parts = {1: pl_module.net[0], 2: pl_module.norm}
        if epoch in parts:
            self.unfreeze_and_add_param_group(parts[epoch], optimizer)


class Net(Regression):
    def __init__(self) -> None:
        super().__init__(dropout=0.2)
        self.norm = BatchNorm1d(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(self.norm(x))

    def configure_optimizers(self) -> Any:
        trained = filter(lambda one: one.requires_grad, self.parameters())
        optimizer = torch.optim.AdamW(trained, lr=0.05)
        scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.9**step)
        return [optimizer], [{"scheduler": scheduler, "interval": "step"}]


class Watch(dt.Callback):
    def __init__(self) -> None:
        self.rates: list[list[float]] = []
        self.weights: list[list[torch.Tensor]] = []

    def on_train_epoch_end(self, trainer, module):
        self.rates.append([group["lr"] for group in trainer.optimizers[0].param_groups])
        parts = (module.net[3].weight, module.net[0].weight, module.norm.weight, module.norm.running_mean)
        self.weights.append([one.detach().clone() for one in parts])


def run(*callbacks: dt.Callback, max_epochs: int = 4, ckpt_path: Path | None = None) -> dt.Trainer:
    torch.manual_seed(1)
    trainer = quiet(max_epochs=max_epochs, callbacks=[Staged(), *callbacks])
    trainer.fit(Net(), loader(20), loader(8), ckpt_path=ckpt_path)
    return trainer


def test_parts_are_trained_from_their_epochs_on_under_a_scheduler() -> None:
    watch = Watch()
    run(watch)
    last, first, norm, tracked = zip(*watch.weights, strict=True)
    changed = [[not torch.equal(a, b) for a, b in pairwise(w)] for w in (last, first, norm)]
    assert changed == [[True, True, True], [True, True, True], [False, True, True]]
    assert torch.equal(first[0], Net().net[0].weight)
    assert [bool(one.any()) for one in tracked] == [False, False, True, True]
    at_end = [0.05 * 0.9 ** (5 * epoch) for epoch in range(1, 5)]
    assert watch.rates == [
        pytest.approx([lr, lr / 10, lr / 10][: 1 + min(epoch, 2)]) for epoch, lr in enumerate(at_end)
    ]


@pytest.mark.parametrize("step", [3, 5, 7, 10, 13])
def test_a_resumed_run_is_the_same_run(tmp_path: Path, step: int) -> None:
    path = tmp_path / "a.ckpt"
    run(SaveAt(path, step)).save_checkpoint(tmp_path / "whole.ckpt")
    resumed = run(ckpt_path=path)
    assert len(resumed.optimizers[0].param_groups) == 3
    resumed.save_checkpoint(tmp_path / "resumed.ckpt")
    whole, again = (torch.load(tmp_path / f"{name}.ckpt", weights_only=True) for name in ("whole", "resumed"))
    assert not differing(whole, again)


def test_a_base_says_what_to_write() -> None:
    with pytest.raises(NotImplementedError):
        quiet(max_epochs=1, callbacks=[Base()]).fit(Net(), loader(8))


class Backed(Regression):
    def __init__(self) -> None:
        super().__init__()
        self.backbone = Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(self.backbone(x))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW([one for one in self.parameters() if one.requires_grad], lr=0.01)


def test_groups_are_found_again_where_their_parameters_are_pruned(tmp_path: Path) -> None:
    path = tmp_path / "a.ckpt"

    def run(*callbacks: dt.Callback, ckpt_path: Path | None = None) -> Backed:
        given = [
            dt.BackboneFinetuning(unfreeze_backbone_at_epoch=1),
            dt.ModelPruning("l1_unstructured", amount=0.2, use_lottery_ticket_hypothesis=False),
        ]
        module = Backed()
        quiet(max_epochs=3, callbacks=[*given, *callbacks]).fit(module, loader(), ckpt_path=ckpt_path)
        return module

    whole = run(SaveAt(path, 15))
    resumed = run(ckpt_path=path)
    assert differing(whole.state_dict(), resumed.state_dict()) == []
