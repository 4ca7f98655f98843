from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import drivetrain as dt
from tests.loops.models import Regression, loader, quiet


class Tuned(Regression):
    def __init__(self, lr: float = 0.01) -> None:
        super().__init__(lr)

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.SGD(self.parameters(), lr=self.hparams.lr)
        return [optimizer], [{"scheduler": torch.optim.lr_scheduler.StepLR(optimizer, 1), "interval": "step"}]


def by_hand(count: int, low: float, high: float) -> list[float]:
    """Return the losses of a range test, in a loop of torch alone."""
    module = Regression()
    optimizer = torch.optim.SGD(module.parameters(), lr=1.0)
    losses: list[float] = []
    while len(losses) < count:
        for batch in loader():
            optimizer.param_groups[0]["lr"] = low * (high / low) ** (len(losses) / (count - 1))
            optimizer.zero_grad()
            loss = module.loss(batch)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    average, smoothed = 0.0, []
    for number, loss in enumerate(losses[:count]):
        average = 0.98 * average + 0.02 * loss
        smoothed.append(average / (1 - 0.98 ** (number + 1)))
    return smoothed


def test_the_losses_are_those_of_a_loop_by_hand_and_nothing_is_left_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    module = Tuned()
    before = [one.detach().clone() for one in module.parameters()]
    random_state = torch.get_rng_state()
    saves = dt.ModelCheckpoint(tmp_path / "never")
    trainer = quiet(max_epochs=1, logger=True, callbacks=[saves])
    found = dt.Tuner(trainer).lr_find(
        module, loader(), num_training=40, max_lr=0.5, early_stop_threshold=None
    )
    assert torch.equal(torch.get_rng_state(), random_state)
    assert found.results["lr"][0] == pytest.approx(1e-8)
    assert found.results["lr"][-1] == pytest.approx(0.5)
    assert found.results["loss"] == pytest.approx(by_hand(40, 1e-8, 0.5))
    suggested = found.suggestion()
    assert 1e-8 < suggested < 0.5
    assert module.hparams.lr == suggested
    assert all(torch.equal(one, other) for one, other in zip(before, module.parameters(), strict=True))
    assert (trainer.global_step, list(tmp_path.iterdir())) == (0, [])


def test_a_loss_that_grows_ends_the_search_and_the_plot_shows_the_suggestion() -> None:
    module = Tuned()
    found = dt.Tuner(quiet()).lr_find(module, loader(), max_lr=1e4, update_attr=False)
    assert len(found.results["lr"]) < 100
    assert module.hparams.lr == 0.01
    (axes,) = found.plot(suggest=True).axes
    line, mark = axes.get_lines()
    assert list(line.get_xdata()) == found.results["lr"]
    assert list(mark.get_xdata()) == [found.suggestion()]
    assert dt.LRSearch({"lr": [0.1], "loss": [1.0]}).suggestion() is None


@pytest.mark.ranks
def test_ranks_search_together() -> None:
    trainer = quiet(devices=2, strategy="ddp")
    found = dt.Tuner(trainer).lr_find(Tuned(), loader(40), num_training=20, update_attr=False)
    alone = dt.Tuner(quiet()).lr_find(Tuned(), loader(40, 8), num_training=20, update_attr=False)
    assert found.results["loss"] == pytest.approx(alone.results["loss"], rel=1e-5)


def test_one_learning_rate_belongs_to_one_optimizer() -> None:
    class Two(Regression):
        def configure_optimizers(self) -> Any:
            return [torch.optim.SGD(self.parameters(), lr=0.1) for _ in range(2)]

    with pytest.raises(dt.TrainerError, match=r"2 optimizers"):
        dt.Tuner(quiet()).lr_find(Two(), loader(), update_attr=False)


def test_what_a_search_does_not_validate_nobody_may_wait_for() -> None:
    class Plateau(Tuned):
        def configure_optimizers(self) -> Any:
            optimizer = torch.optim.SGD(self.parameters(), lr=self.hparams.lr)
            plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
            return {"optimizer": optimizer, "lr_scheduler": {"scheduler": plateau, "monitor": "val"}}

    callbacks = [dt.EarlyStopping("val"), dt.StochasticWeightAveraging(0.1), dt.SpikeDetection()]
    found = dt.Tuner(quiet(callbacks=callbacks)).lr_find(Plateau(), loader(), early_stop_threshold=None)
    assert len(found.results["lr"]) == 100
