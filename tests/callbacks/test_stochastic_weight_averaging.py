from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.optim.lr_scheduler import LambdaLR
from torch.optim.swa_utils import SWALR, AveragedModel, update_bn

import drivetrain as dt
from tests.callbacks.test_weight_averaging import Normed, SaveAt, Trace, assert_same
from tests.loops.models import Regression, differing, loader, quiet


class Scheduled(Regression):
    """Has batch norm, and a scheduler that steps with steps or epochs."""

    def __init__(self, interval: str = "epoch") -> None:
        super().__init__()
        self.norm, self.interval = torch.nn.BatchNorm1d(4), interval

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(self.norm(x))

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.SGD(self.parameters(), lr=0.2)
        scheduler = LambdaLR(optimizer, lambda count: 0.9**count)
        return [optimizer], [{"scheduler": scheduler, "interval": self.interval}]


def by_torch(interval: str, num_epochs: int, first: int, **annealing: Any) -> tuple[Scheduled, list[float]]:
    """The loop that torch's documentation shows."""
    module = Scheduled(interval)
    (optimizer,), (entry,) = module.configure_optimizers()
    scheduler, average, swa, lrs = entry["scheduler"], AveragedModel(module), None, []
    for epoch in range(num_epochs):
        if epoch == first:
            swa = SWALR(optimizer, 0.05, **annealing)
        for batch in loader(20):
            lrs.append(optimizer.param_groups[0]["lr"])
            optimizer.zero_grad()
            module.loss(batch).backward()
            optimizer.step()
            if swa is None and interval == "step":
                scheduler.step()
        if swa is not None:
            average.update_parameters(module)
            swa.step()
        elif interval == "epoch":
            scheduler.step()
    update_bn(loader(20), average)
    return average.module, lrs


class Rates(dt.Callback):
    def __init__(self) -> None:
        self.lrs: list[float] = []

    def on_before_optimizer_step(self, trainer, module, optimizer):
        self.lrs.append(optimizer.param_groups[0]["lr"])


@pytest.mark.parametrize(
    ("interval", "start", "first", "annealing"),
    [
        ("epoch", 0.6, 2, (2, "cos")),
        ("step", 4, 3, (10, "linear")),
        ("epoch", 1, 0, (0, "cos")),
        ("epoch", 0.0, 0, (1, "linear")),
    ],
)
def test_it_is_the_loop_of_torchs_documentation(
    interval: str, start: float, first: int, annealing: tuple[int, str]
) -> None:
    rates, trace, module = Rates(), Trace(), Scheduled(interval)
    average = dt.StochasticWeightAveraging(0.05, start, *annealing)
    quiet(max_epochs=5, callbacks=[average, rates, trace]).fit(module, loader(20), loader(8))
    expected, lrs = by_torch(interval, 5, first, anneal_epochs=annealing[0], anneal_strategy=annealing[1])
    assert rates.lrs == pytest.approx(lrs)
    assert average.n_averaged == 5 - first
    assert_same(dict(module.named_parameters()), dict(expected.named_parameters()))
    assert_same(dict(module.named_buffers()), dict(expected.named_buffers()))
    assert_same(trace.validated[-1], trace.steps[-1])  # validation has the weights of training


def run(tmp_path: Path, name: str, *callbacks: dt.Callback, ckpt_path: Path | None = None) -> dict[str, Any]:
    torch.manual_seed(1)
    average = dt.StochasticWeightAveraging(0.05, 3, 3, device=None)
    trainer = quiet(max_epochs=4, callbacks=[average, *callbacks])
    trainer.fit(Scheduled("step"), loader(20), ckpt_path=ckpt_path)
    trainer.save_checkpoint(tmp_path / name)
    return torch.load(tmp_path / name, weights_only=True)


@pytest.mark.parametrize("step", [3, 12, 15, 17])
def test_a_resumed_run_is_the_same_run(tmp_path: Path, step: int) -> None:
    path = tmp_path / "a.ckpt"
    trace = Trace()
    whole = run(tmp_path, "whole.ckpt", trace, SaveAt(path, step))
    assert_same(torch.load(path, weights_only=True)["state_dict"], trace.steps[step - 1])
    assert_same(whole["current_model_state"], trace.steps[-1])
    resumed = run(tmp_path, "resumed.ckpt", ckpt_path=path)
    assert not differing(whole, resumed)


@pytest.mark.parametrize(("step", "what"), [(17, "what was averaged is left out"), (20, "goes on from the")])
def test_going_on_without_the_callback_warns(tmp_path: Path, step: int, what: str) -> None:
    path = tmp_path / "a.ckpt"
    run(tmp_path, "a.ckpt" if step == 20 else "whole.ckpt", SaveAt(path, step))
    with pytest.warns(dt.DrivetrainWarning, match=rf"checkpoint.averaged.*{what}.*Pass the callback again"):
        quiet(max_epochs=5).fit(Scheduled("step"), loader(20), ckpt_path=path)


def test_several_optimizers_and_groups() -> None:
    class Two(Normed):
        def configure_optimizers(self):
            return [torch.optim.SGD(self.net[index].parameters(), lr=0.1) for index in (0, 3)]

    module = Two()
    trainer = quiet(max_epochs=2, callbacks=[dt.StochasticWeightAveraging(0.03, 1, 1)])
    trainer.fit(module, loader(20))
    assert [one.param_groups[0]["lr"] for one in trainer.optimizers] == [0.03, 0.03]
    with pytest.raises(dt.ModuleError, match=r"callback.bad-argument.*swa_lrs=\[0.1, 0.2\]"):
        quiet(max_epochs=2, callbacks=[dt.StochasticWeightAveraging([0.1, 0.2])]).fit(module, loader(20))


def test_a_part_needs_a_whole() -> None:
    with pytest.raises(dt.ModuleError, match=r"callback.bad-argument.*swa_epoch_start=0.8"):
        quiet(max_steps=4, callbacks=[dt.StochasticWeightAveraging(0.1)]).fit(Normed(), loader(20))


def test_an_epoch_that_is_cut_short_is_not_in_the_average() -> None:
    average, trace, module = dt.StochasticWeightAveraging(0.05, 1), Trace(), Regression()
    quiet(max_steps=7, callbacks=[average, trace]).fit(module, loader(20))
    assert average.n_averaged == 1
    assert_same(module.state_dict(), trace.steps[4])


@pytest.mark.parametrize(
    "given",
    [
        {"swa_lrs": 0.0},
        {"swa_lrs": "0.1"},
        {"swa_lrs": [0.1, -1.0]},
        {"swa_epoch_start": 0},
        {"swa_epoch_start": 1.5},
        {"annealing_epochs": -1},
        {"annealing_strategy": "exp"},
        {"avg_fn": 3},
        {"device": "abacus"},
    ],
)
def test_other_arguments_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(dt.ModuleError, match=r"callback.bad-argument.*StochasticWeightAveraging"):
        dt.StochasticWeightAveraging(**{"swa_lrs": 0.1, **given})


class Counts(Scheduled):
    """Counts its steps."""

    num_steps = 0

    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        self.num_steps += 1
        return super().training_step(batch, batch_idx)


class Leaves(dt.Callback):
    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        if trainer.global_step == 13:
            os.kill(os.getpid(), signal.SIGTERM)


def test_a_signal_waits_for_no_pass_over_the_data(tmp_path: Path) -> None:
    module = Counts()
    flags: dict[str, Any] = {"max_epochs": 4, "default_root_dir": tmp_path}
    averages = dt.StochasticWeightAveraging(0.05, swa_epoch_start=1)
    with pytest.raises(SystemExit):
        quiet(**flags, callbacks=[averages, Leaves()]).fit(module, loader(20))
    assert module.num_steps == 13
    again, whole = Counts(), Counts()
    averages = dt.StochasticWeightAveraging(0.05, swa_epoch_start=1)
    path = tmp_path / "checkpoints" / "signal.ckpt"
    quiet(**flags, callbacks=[averages]).fit(again, loader(20), ckpt_path=path)
    averages = dt.StochasticWeightAveraging(0.05, swa_epoch_start=1)
    quiet(**flags, callbacks=[averages]).fit(whole, loader(20))
    assert not differing(again.state_dict(), whole.state_dict())
