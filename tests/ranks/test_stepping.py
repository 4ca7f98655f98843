from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from tests.loops.models import Regression, data, loader, quiet
from tests.loops.steps import (
    Adversarial,
    ByHand,
    Weighted,
    assert_close,
    batches_of,
    joined,
    train,
    train_adversarial,
)

pytestmark = pytest.mark.ranks


def test_accumulation_and_clipping_on_ranks_equal_one_process_on_the_joint_batch() -> None:
    module = Regression()
    trainer = quiet(devices=2, strategy="ddp", max_epochs=2, accumulate_grad_batches=2, gradient_clip_val=0.5)
    result = trainer.fit(module, loader(39))  # 10 batches: steps of 2 x 2, 2 x 2 and 2 x 1
    steps = joined(batches_of(39), 4)
    assert_close(module, train(Regression(), steps, clip=0.5, epochs=2))
    assert (result.steps, result.samples) == (6, 78)


def test_weights_are_summed_over_ranks_and_the_last_step_may_lack_a_batch() -> None:
    for factor in (1, 2):
        module = Weighted()
        quiet(devices=2, strategy="ddp", max_epochs=1, accumulate_grad_batches=factor).fit(module, loader(35))
        assert_close(module, train(Weighted(), joined(batches_of(35), 2 * factor)))


def test_several_backwards_a_step_are_averaged_each() -> None:
    joint = joined(batches_of(35), 2)
    module = Adversarial()
    quiet(devices=2, strategy="ddp", max_epochs=1, accumulate_grad_batches=2).fit(module, loader(35))
    assert_close(module, train_adversarial(Adversarial(), joint, 2, num_samples=35))
    by_hand = ByHand()
    result = quiet(devices=2, strategy="ddp", max_epochs=1).fit(by_hand, loader(35))
    assert_close(by_hand, train_adversarial(Adversarial(), joint, clip=0.5, num_samples=35))
    assert result.steps == 5


def test_a_run_goes_on_within_a_window_on_another_number_of_ranks(tmp_path: Path) -> None:
    from tests.loops.test_resume_within import SaveAt

    path, whole = tmp_path / "a.ckpt", Regression()
    settings = {"max_epochs": 1, "accumulate_grad_batches": 4}
    quiet(**settings, callbacks=[SaveAt(path, batches=2)]).fit(whole, loader(32))
    module = Regression()
    # Two batches of the window are taken, two are left: one of each rank.
    quiet(devices=2, strategy="ddp", max_epochs=1, accumulate_grad_batches=4).fit(
        module, loader(32), ckpt_path=path
    )
    expected = train(Regression(), [list(range(8)) + list(range(8, 24)), list(range(24, 32))], num_samples=32)
    assert_close(module, expected)


class Plateau(Regression):
    """A scheduler that looks at the loss of each step."""

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=0.1)
        scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=0)
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": scheduler, "monitor": "loss", "interval": "step", "frequency": 2},
        }


def test_a_scheduler_of_steps_sees_the_value_of_all_ranks() -> None:
    module, reference = Plateau(), Plateau()
    trainer = quiet(devices=2, strategy="ddp", max_epochs=2)
    trainer.fit(module, loader(35))
    configured = reference.configure_optimizers()
    optimizer, scheduler = configured["optimizer"], configured["lr_scheduler"]["scheduler"]
    for number, step in enumerate(joined(batches_of(35), 2) * 2, 1):
        optimizer.zero_grad()
        loss = reference.loss(data(35)[step])
        loss.backward()
        optimizer.step()
        if number % 2 == 0:
            scheduler.step(loss.item())
    rate = trainer.optimizers[0].param_groups[0]["lr"]
    assert rate == optimizer.param_groups[0]["lr"] < 0.1
    assert_close(module, reference)


class Searches(Regression):
    """Evaluates again until the loss is small enough: ranks have to see one loss."""

    def __init__(self, search: str | None) -> None:
        super().__init__()
        self.search = search

    def configure_optimizers(self):
        return torch.optim.LBFGS(self.parameters(), lr=0.5, max_iter=6, line_search_fn=self.search)


class SearchesWeighted(Searches):
    def training_step(self, batch, batch_idx):
        return Weighted.training_step(self, batch, batch_idx)


@pytest.mark.parametrize("search", [None, "strong_wolfe"])
@pytest.mark.parametrize("kind", [Searches, SearchesWeighted])
def test_an_optimizer_that_evaluates_again_does_so_alike_on_all_ranks(
    kind: type[Searches], search: str | None
) -> None:
    module, reference = kind(search).double(), kind(search).double()
    samples = [tensor.double() for tensor in data(35).tensors]
    quiet(devices=2, strategy="ddp", max_epochs=1).fit(module, DataLoader(TensorDataset(*samples), 4))
    optimizer = reference.configure_optimizers()
    for step in joined(batches_of(35), 2):

        def closure(step: list[int] = step) -> torch.Tensor:
            optimizer.zero_grad()
            batch = [tensor[step] for tensor in samples]
            loss = reference.loss(batch)
            if kind is SearchesWeighted:
                loss = reference.training_step(batch, 0)["loss"]
            loss.backward()
            return loss

        optimizer.step(closure)
    assert_close(module, reference)
