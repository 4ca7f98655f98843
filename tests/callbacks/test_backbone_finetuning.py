from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import drivetrain as dt
from tests.callbacks.test_weight_averaging import SaveAt
from tests.loops.models import Regression, differing, loader, quiet


class Net(Regression):
    def __init__(self) -> None:
        super().__init__()
        self.backbone = torch.nn.Sequential(self.net[0], torch.nn.BatchNorm1d(8), self.net[1])
        self.head = self.net[3]
        del self.net

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.backbone(x))

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD([one for one in self.parameters() if one.requires_grad], lr=0.1)


class Rates(dt.Callback):
    def __init__(self) -> None:
        self.rates: list[list[float]] = []

    def on_train_epoch_end(self, trainer, module):
        self.rates.append([group["lr"] for group in trainer.optimizers[0].param_groups])


@pytest.mark.parametrize(
    ("given", "backbone"),
    [
        ({}, [0.01, 0.02, 0.04, 0.08, 0.1]),
        ({"should_align": False}, [0.01, 0.02, 0.04, 0.08, 0.16]),
        (
            {"backbone_initial_ratio_lr": 0.5, "lambda_func": lambda epoch: 1.0 + epoch % 2},
            [0.05, 0.05, 0.1, 0.1, 0.1],
        ),
        (
            {"backbone_initial_lr": 0.03, "lambda_func": lambda _: 0.5},
            [0.03, 0.015, 0.0075, 0.00375, 0.001875],
        ),
    ],
)
def test_the_backbones_rate(given: dict[str, Any], backbone: list[float]) -> None:
    rates, module = Rates(), Net()
    quiet(max_epochs=7, callbacks=[dt.BackboneFinetuning(2, **given), rates]).fit(module, loader(8))
    assert rates.rates == [pytest.approx(one) for one in ([0.1], [0.1], *([0.1, lr] for lr in backbone))]


def test_only_the_head_is_trained_before_and_batch_norm_if_wanted() -> None:
    for train_bn in (True, False):
        module, fresh = Net(), Net()
        quiet(max_epochs=2, callbacks=[dt.BackboneFinetuning(2, train_bn=train_bn)]).fit(module, loader(8))
        assert torch.equal(module.backbone[0].weight, fresh.backbone[0].weight)
        assert not torch.equal(module.head.weight, fresh.head.weight)
        assert torch.equal(module.backbone[1].weight, fresh.backbone[1].weight) is not train_bn
        assert bool(module.backbone[1].running_mean.any()) is train_bn
    quiet(max_epochs=1, callbacks=[dt.BackboneFinetuning(0)]).fit(module, loader(8))
    assert not torch.equal(module.backbone[0].weight, fresh.backbone[0].weight)


@pytest.mark.parametrize("step", [3, 4, 5, 8])
def test_a_resumed_run_is_the_same_run(tmp_path: Path, step: int) -> None:
    path = tmp_path / "a.ckpt"

    def run(*callbacks: dt.Callback, ckpt_path: Path | None = None) -> dict[str, Any]:
        trainer = quiet(max_epochs=5, callbacks=[dt.BackboneFinetuning(2), *callbacks])
        trainer.fit(Net(), loader(8), ckpt_path=ckpt_path)
        trainer.save_checkpoint(tmp_path / "end.ckpt")
        return torch.load(tmp_path / "end.ckpt", weights_only=True)

    assert not differing(run(SaveAt(path, step)), run(ckpt_path=path))


def test_an_optimizer_that_has_the_backbone_already_keeps_its_own_rate() -> None:
    class All(Net):
        def configure_optimizers(self) -> Any:
            return [
                torch.optim.SGD(self.parameters(), lr=0.1),
                torch.optim.SGD(self.head.parameters(), lr=0.1),
            ]

    rates = Rates()
    trainer = quiet(max_epochs=3, callbacks=[dt.BackboneFinetuning(1), rates])
    with pytest.warns(dt.DrivetrainWarning, match="callback.already-optimized"):
        trainer.fit(All(), loader(8))
    assert rates.rates == [[0.1]] * 3
    assert len(trainer.optimizers[1].param_groups) == 1


def test_it_says_what_it_does(capsys: pytest.CaptureFixture[str]) -> None:
    quiet(max_epochs=3, callbacks=[dt.BackboneFinetuning(1, verbose=True)]).fit(Net(), loader(8))
    assert capsys.readouterr().err.splitlines() == [
        "epoch 1: learning rate 0.1, backbone 0.01",
        "epoch 2: learning rate 0.1, backbone 0.02",
    ]


def test_a_module_without_backbone_is_refused() -> None:
    with pytest.raises(dt.ModuleError, match=r"callback.no-backbone\] Regression has no backbone"):
        quiet(max_epochs=1, callbacks=[dt.BackboneFinetuning()]).fit(Regression(), loader(8))


@pytest.mark.parametrize(
    "given",
    [
        {"unfreeze_backbone_at_epoch": -1},
        {"lambda_func": 2.0},
        {"backbone_initial_ratio_lr": 0},
        {"backbone_initial_lr": "0.1"},
        {"should_align": 1},
        {"initial_denom_lr": -10.0},
        {"train_bn": None},
        {"verbose": 2},
        {"rounding": 1.5},
    ],
)
def test_other_arguments_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(dt.ModuleError, match=r"callback.bad-argument.*BackboneFinetuning"):
        dt.BackboneFinetuning(**given)
