from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
import torch

import drivetrain as dt
from tests.loops.models import Regression, loader, quiet


class Cycled(Regression):
    """Keeps its rate in ``self.lr`` too, and has a schedule that is made from it."""

    def __init__(self, lr: float = 0.01) -> None:
        super().__init__(lr)
        self.lr = lr

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.AdamW(self.parameters(), lr=self.lr)
        total = int(self.trainer.estimated_stepping_batches)
        cycle = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=self.lr, total_steps=total + 1)
        return [optimizer], [{"scheduler": cycle, "interval": "step"}]


class Rates(dt.Callback):
    """Writes down the rate of every step."""

    def __init__(self) -> None:
        self.rates: list[float] = []

    def on_before_optimizer_step(self, trainer: Any, module: Any, optimizer: Any) -> None:
        if not any(type(one).__name__ == "RangeTest" for one in trainer.callbacks):
            self.rates.append(optimizer.param_groups[0]["lr"])


@pytest.mark.ranks
@pytest.mark.parametrize("devices", [1, 2])
def test_a_fit_trains_with_what_is_found(devices: int) -> None:
    flags = {"devices": devices, "strategy": "ddp"} if devices > 1 else {}
    finder, seen, model = dt.LearningRateFinder(num_training_steps=40, max_lr=0.5), Rates(), Cycled()
    trainer = quiet(**flags, max_epochs=10, callbacks=[finder, seen])
    trainer.fit(model, loader(40))
    apart = Cycled()
    found = dt.Tuner(quiet(**flags)).lr_find(apart, loader(40), num_training=40, max_lr=0.5)
    assert finder.optimal_lr is not None
    assert finder.optimal_lr.results == found.results
    suggested = found.suggestion()
    assert suggested not in (None, 0.01)
    assert (model.lr, model.hparams.lr, apart.lr) == (suggested, suggested, suggested)
    assert max(seen.rates) == pytest.approx(suggested, rel=0.01)  # the cycle's top
    assert seen.rates[0] == pytest.approx(suggested / 25)
    again, without = Cycled(suggested), Rates()
    quiet(**flags, max_epochs=10, callbacks=without).fit(again, loader(40))
    assert without.rates == seen.rates
    assert all(
        torch.equal(one, other) for one, other in zip(model.parameters(), again.parameters(), strict=True)
    )


def test_the_search_leaves_no_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    drawn: list[tuple[float, float]] = []

    class Draws(dt.Callback):
        def on_train_start(self, trainer: Any, module: Any) -> None:
            drawn.append((random.random(), float(torch.rand(1))))

    before: list[Any] = []
    for finders in ([dt.LearningRateFinder(num_training_steps=20, update_attr=False)], []):
        torch.manual_seed(3)
        random.seed(3)
        model = Cycled()
        trainer = quiet(max_steps=4, callbacks=[*finders, Draws()])
        trainer.fit(model, loader(shuffle=True))
        before.append([one.detach() for one in model.parameters()])
        assert (trainer.global_step, model.lr) == (4, 0.01)
    # The search's own copy of Draws has drawn too, before.
    assert len(drawn) == 3
    assert drawn[1] == drawn[2]
    assert all(torch.equal(one, other) for one, other in zip(*before, strict=True))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.ranks
@pytest.mark.parametrize("devices", [1, 2])
def test_a_subclass_searches_at_milestones(devices: int) -> None:
    class AtMilestones(dt.LearningRateFinder):
        def __init__(self, milestones: tuple[int, ...], **kwargs: Any) -> None:
            super().__init__(**kwargs)
            self.milestones, self.found = milestones, []

        def on_fit_start(self, *args: Any, **kwargs: Any) -> None:
            return

        def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
            if trainer.current_epoch in self.milestones or trainer.current_epoch == 0:
                self.lr_find(trainer, pl_module)
                self.found.append(self.optimal_lr.suggestion())

    class Stepped(Cycled):
        def configure_optimizers(self) -> Any:
            optimizer = torch.optim.SGD(self.parameters(), lr=self.lr)
            return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)]

    flags = {"devices": devices, "strategy": "ddp"} if devices > 1 else {}
    finder, seen = AtMilestones((2,), num_training_steps=40, max_lr=0.5), Rates()
    quiet(**flags, max_epochs=4, callbacks=[finder, seen]).fit(Stepped(), loader(40))
    steps, (first, second) = 10 // devices, finder.found
    expected = [first] * steps + [first / 2] * steps + [second] * steps + [second / 2] * steps
    assert seen.rates == pytest.approx(expected)


def test_a_subclass_at_the_first_epoch_has_its_schedule_made_anew() -> None:
    class AtEpoch(dt.LearningRateFinder):
        def on_fit_start(self, *args: Any) -> None:
            return

        def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
            if trainer.current_epoch == 0:
                self.lr_find(trainer, pl_module)

    early, late = Rates(), Rates()
    kwargs: dict[str, Any] = {"num_training_steps": 40, "max_lr": 0.5}
    quiet(max_epochs=3, callbacks=[dt.LearningRateFinder(**kwargs), early]).fit(Cycled(), loader())
    quiet(max_epochs=3, callbacks=[AtEpoch(**kwargs), late]).fit(Cycled(), loader())
    assert early.rates == late.rates


def test_a_run_that_goes_on_does_not_search_again(tmp_path: Path) -> None:
    path = tmp_path / "half.ckpt"

    class Save(dt.Callback):
        def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
            if trainer.global_step == 15:
                trainer.save_checkpoint(path)

    kwargs: dict[str, Any] = {"num_training_steps": 40, "max_lr": 0.5}
    whole, seen = Cycled(), Rates()
    quiet(max_steps=30, callbacks=[dt.LearningRateFinder(**kwargs), seen, Save()]).fit(whole, loader())
    resumed, finder, rest = Cycled(), dt.LearningRateFinder(**kwargs), Rates()
    quiet(max_steps=30, callbacks=[finder, rest]).fit(resumed, loader(), ckpt_path=path)
    assert finder.optimal_lr is not None
    assert resumed.lr == finder.optimal_lr.suggestion() == whole.lr
    assert rest.rates == seen.rates[15:]
    assert all(
        torch.equal(one, other) for one, other in zip(whole.parameters(), resumed.parameters(), strict=True)
    )


def test_a_fit_that_is_verified_searches_in_its_runs() -> None:
    finder = dt.LearningRateFinder(num_training_steps=20)
    model = Cycled()
    report = quiet(max_epochs=1, callbacks=finder).verify_resume(model, loader(), steps=6)
    assert report.is_exact, str(report)
    assert (finder.optimal_lr, model.lr) == (None, 0.01)


def test_both_finders_in_one_fit() -> None:
    class Both(Cycled):
        def __init__(self) -> None:
            super().__init__()
            self.batch_size = 2

        def train_dataloader(self) -> Any:
            return loader(39, self.batch_size)

    model = Both()
    size, rate = dt.BatchSizeFinder(max_val=8), dt.LearningRateFinder(num_training_steps=30, max_lr=0.5)
    quiet(max_epochs=1, callbacks=[size, rate]).fit(model)
    apart = Cycled()
    dt.Tuner(quiet()).lr_find(apart, loader(39, 8), num_training=30, max_lr=0.5)
    assert (model.batch_size, model.lr) == (8, apart.lr)


def test_other_verbs_do_not_search() -> None:
    finder = dt.LearningRateFinder()
    quiet(callbacks=finder).validate(Cycled(), loader())
    assert finder.optimal_lr is None


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(dt.TrainerError, match=r"LearningRateFinder\(num_training_steps=1\)"):
        dt.LearningRateFinder(num_training_steps=1)
    with pytest.raises(dt.TrainerError, match="has no rate for the learning rate"):
        quiet(max_steps=1, callbacks=dt.LearningRateFinder(attr_name="rate")).fit(Cycled(), loader())
    with pytest.raises(dt.CheckpointError, match="results"):
        dt.LearningRateFinder().load_state_dict({"mode": "linear", "results": 3})


class Deaf(Regression):
    """Has a rate that its optimizer is not made with."""

    lr = 0.3

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.125)


@pytest.mark.parametrize(("kind", "is_used"), [(Deaf, False), (Cycled, True)])
def test_a_rate_that_the_optimizer_does_not_take_up_is_told(
    kind: type[Regression], is_used: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    finder = dt.LearningRateFinder(num_training_steps=40, max_lr=0.5)
    quiet(max_epochs=1, callbacks=finder).fit(kind(), loader(40))
    told = capsys.readouterr()
    text = "the optimizer was made with 0.125: does configure_optimizers use self.lr?"
    assert (text in told.out + told.err) is not is_used
