"""Parameters that are frozen, unfrozen or added during the fit, and buffers that ranks change apart."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import drivetrain as dt
from tests.loops.models import Regression, loader, quiet
from tests.loops.steps import assert_close, batches_of, joined

pytestmark = pytest.mark.ranks


class Unfreezing(Regression):
    """The last layer trains first, then the first one too, then a new one alone."""

    def __init__(self) -> None:
        super().__init__()
        self.net[0].requires_grad_(False)

    def change(self, step: int, optimizer: Any) -> None:
        if step == 2:
            self.net[0].requires_grad_(True)
        if step == 4:
            self.requires_grad_(False)
            self.scale = torch.nn.Parameter(torch.ones(1, device=self.device))
            optimizer.add_param_group({"params": [self.scale]})

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(x) * getattr(self, "scale", 1.0)

    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        return self.loss(batch)

    def on_train_batch_start(self, batch: Any, batch_idx: int) -> None:
        self.change(batch_idx, self.optimizers())

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


def test_what_is_trained_may_change_within_the_fit() -> None:
    module, alone = Unfreezing(), Unfreezing()
    quiet(devices=2, strategy="ddp", max_epochs=1).fit(module, loader(44))

    optimizer = torch.optim.SGD(alone.parameters(), lr=0.1)
    samples = loader(44).dataset
    for step, joint in enumerate(joined(batches_of(44), 2)):
        alone.change(step, optimizer)
        optimizer.zero_grad()
        alone.loss(samples[joint]).backward()
        optimizer.step()
    assert_close(module, alone)


class Normed(Regression):
    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(self.norm(x))

    def on_validation_epoch_end(self) -> None:
        self.log("lowest", self.norm.running_mean.sum(), rank_fx="min")
        self.log("highest", self.norm.running_mean.sum(), rank_fx="max")


def test_ranks_evaluate_with_the_same_running_statistics() -> None:
    module = Normed()
    trainer = quiet(devices=2, strategy="ddp", max_epochs=1)
    trainer.fit(module, loader(40), loader(40))
    assert trainer.callback_metrics["lowest"] == trainer.callback_metrics["highest"]
    torch.testing.assert_close(
        float(trainer.callback_metrics["lowest"]), float(module.norm.running_mean.sum()), atol=1e-6, rtol=0
    )
    kept = float(trainer.callback_metrics["val"])
    assert quiet().validate(module, loader(40))[0]["val"] == pytest.approx(kept, abs=1e-6)


class Scaling(Regression):
    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        loss = self.loss(batch)
        self.log("loss", loss, on_step=True, on_epoch=True)
        loss *= 0
        return loss


def test_what_was_logged_stays_what_it_was() -> None:
    trainer = quiet(max_epochs=1)
    trainer.fit(Scaling(), loader())
    assert trainer.callback_metrics["loss_step"] > 0
    assert trainer.callback_metrics["loss_epoch"] > 0


def test_each_rank_starts_from_rank_zeros_model_in_evaluation_too() -> None:
    class Apart(Regression):
        def configure_model(self) -> None:
            with torch.no_grad():
                self.net[0].weight.add_(self.global_rank)

    module = Apart()
    found = quiet(devices=2, strategy="ddp").test(module, loader(40))
    assert found[0]["test"] == pytest.approx(quiet().test(Regression(), loader(40))[0]["test"], abs=1e-6)
    assert isinstance(module, dt.Module)


class Leaving(dt.Callback):
    def __init__(self, ranks: tuple[int, ...]) -> None:
        self.ranks = ranks

    def on_train_batch_start(self, trainer: Any, module: Any, batch: Any, batch_idx: int) -> int | None:
        return -1 if batch_idx == 3 and trainer.global_rank in self.ranks else None

    def on_validation_batch_end(self, trainer: Any, *_: Any) -> None:
        trainer.save_checkpoint("never.ckpt")


def test_an_epoch_is_left_by_all_ranks_or_by_none() -> None:
    def run(ranks: tuple[int, ...], *loaders: Any) -> Any:
        trainer = quiet(devices=2, strategy="ddp", max_epochs=2, callbacks=[Leaving(ranks)])
        return trainer.fit(Regression(), loader(40), *loaders)

    assert run((0, 1)).steps == 6
    with pytest.raises(dt.CollectiveError, match=r"loop.batch-start\] .* on rank 0, and not"):
        run((0,))
    with pytest.raises(dt.RankFailure, match=r"loop.batch-start\] .* on rank 1, and not"):
        run((1,))
    with pytest.raises(dt.TrainerError, match=r"trainer.save-within\] .* the validation loop, on 2 ranks"):
        run((), loader(40))
