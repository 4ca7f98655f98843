"""local_sgd on several ranks against ranks that are played in one process."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch

import drivetrain as dt
from tests.loops.models import Regression, data, differing, loader, quiet
from tests.loops.steps import ByHand

pytestmark = pytest.mark.ranks


class Momentum(Regression):
    """Plain steps with momentum, which each rank keeps to itself; with running statistics."""

    def __init__(self, lr: float = 0.02, momentum: float = 0.9) -> None:
        super().__init__()
        self.net.append(torch.nn.Identity())
        self.norm = torch.nn.BatchNorm1d(4, affine=False)
        self.double()
        self.rate, self.momentum = lr, momentum

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(self.norm(x.double()))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=self.rate, momentum=self.momentum)


def assert_close(mine: Any, theirs: Any) -> None:
    assert mine.keys() == theirs.keys()
    for name, one in mine.items():
        torch.testing.assert_close(one, theirs[name], atol=1e-6, rtol=0, msg=name)


def average(models: list[Any]) -> None:
    tensors = [[*one.parameters(), *one.buffers()] for one in models]
    for same in zip(*tensors, strict=True):
        if same[0].is_floating_point():
            mean = torch.stack([one.detach() for one in same]).mean(0)
            for one in same:
                one.data.copy_(mean)


def played(  # noqa: C901, PLR0912 - the algorithm, written down
    make: Any, num_ranks: int, num_samples: int, warmup: int, period: int, group: tuple[int, int] = (1, 1)
) -> list[dict[str, torch.Tensor]]:
    """Return the state of the mean of all ranks after each step, trained by hand."""
    models = [make() for _ in range(num_ranks)]
    optimizers = [one.configure_optimizers() for one in models]
    batches, states = list(loader(num_samples)), []
    for step, first in enumerate(range(0, len(batches), num_ranks), 1):
        if step <= warmup + 1:
            for one in models[1:]:  # rank 0's buffers reach all before each forward
                for mine, theirs in zip(one.buffers(), models[0].buffers(), strict=True):
                    mine.copy_(theirs)
        for one, optimizer, batch in zip(models, optimizers, batches[first:], strict=False):
            optimizer.zero_grad()
            one.loss(batch).backward()
        if step <= warmup:
            for same in zip(*(one.parameters() for one in models), strict=True):
                mean = torch.stack([one.grad for one in same]).mean(0)
                for one in same:
                    one.grad = mean.clone()
        for optimizer in optimizers:
            optimizer.step()
        after = step - warmup
        if after > 0 and after % period == 0:
            average(models)
        elif after > 0 and after % group[1] == 0:
            for start in range(0, num_ranks, group[0]):
                average(models[start : start + group[0]])
        joint = copy.deepcopy(models)
        if after > 0:
            average(joint)
        states.append(joint[0].state_dict())
    return states


class Look(dt.Callback):
    """Validates what it is told to, and keeps the weights that a validation and a checkpoint see."""

    def __init__(self) -> None:
        self.seen: dict[int, Any] = {}
        self.values: dict[int, float] = {}

    def on_validation_end(self, trainer, module):
        self.seen[trainer.global_step] = {
            name: one.detach().clone() for name, one in module.state_dict().items()
        }
        self.values[trainer.global_step] = float(trainer.callback_metrics["val"])


class SaveAt(dt.Callback):
    is_last = True

    def __init__(self, step: int, path: Path) -> None:
        self.step, self.path = step, path

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        if trainer.global_step == self.step:
            trainer.save_checkpoint(self.path)


def fit(make: Any, path: Path, options: str, devices: int = 2, samples: int = 80, **given: Any) -> Any:
    """Fit, save after it, and return the checkpoint."""
    strategy = f"local_sgd({options})" if options else given.pop("strategy")
    module, ckpt_path = make(), given.pop("ckpt_path", None)
    val = given.pop("val", None)
    trainer = quiet(max_epochs=1, devices=devices, strategy=strategy, **given)
    trainer.fit(module, loader(samples), val, ckpt_path=ckpt_path)
    trainer.save_checkpoint(path)
    found = torch.load(path, weights_only=True)
    assert not differing(found["state_dict"], dict(module.state_dict()))
    return found


def test_ranks_step_alone_and_average_and_others_see_the_mean(tmp_path: Path) -> None:
    expected = played(Momentum, 2, 80, warmup=2, period=3)
    look = Look()
    saved = fit(
        Momentum,
        tmp_path / "all",
        "period=3,warmup_steps=2",
        callbacks=[look, SaveAt(7, tmp_path / "seven")],
        val=loader(12),
        val_check_interval=2,
    )
    assert_close(saved["state_dict"], expected[-1])
    assert list(look.seen) == [2, 4, 6, 8, 10]
    reference = Momentum()
    for step, state in look.seen.items():
        assert_close(state, expected[step - 1])
        reference.load_state_dict(expected[step - 1])
        with torch.no_grad():
            wanted = reference.eval().loss(data(12).tensors)
        assert look.values[step] == pytest.approx(float(wanted), rel=1e-5)
    seven = torch.load(tmp_path / "seven", weights_only=True)
    assert_close(seven["state_dict"], expected[6])

    # Validations left no trace, and a run that goes on within a period goes on exactly.
    plain = fit(Momentum, tmp_path / "plain", "period=3,warmup_steps=2")
    assert not differing(plain["state_dict"], saved["state_dict"])
    again = fit(Momentum, tmp_path / "again", "period=3,warmup_steps=2", ckpt_path=tmp_path / "seven")
    assert not differing(again["state_dict"], saved["state_dict"])
    assert not differing(again["loops"]["fit"]["strategies"], saved["loops"]["fit"]["strategies"])


def test_other_ranks_and_strategies_go_on_from_the_mean(tmp_path: Path) -> None:
    fit(Momentum, tmp_path / "all", "period=4,warmup_steps=1", callbacks=[SaveAt(8, tmp_path / "eight")])
    eight = torch.load(tmp_path / "eight", weights_only=True)

    class Loaded(dt.Callback):
        def on_train_start(self, trainer, module):
            for name, one in module.state_dict().items():
                assert torch.equal(one, eight["state_dict"][name]), name

    given = {"ckpt_path": tmp_path / "eight", "callbacks": [Loaded()]}
    with pytest.warns(dt.DrivetrainWarning, match="trained apart"):
        fit(Momentum, tmp_path / "one", "period=4", devices=1, **given)
    with pytest.warns(dt.DrivetrainWarning, match="trained apart"):
        fit(Momentum, tmp_path / "ddp", "", devices=2, strategy="ddp", **given)
    fit(Momentum, tmp_path / "ddp8", "", devices=2, strategy="ddp", callbacks=[SaveAt(8, tmp_path / "d8")])
    on = fit(Momentum, tmp_path / "on", "period=4,warmup_steps=1", ckpt_path=tmp_path / "d8")
    assert on["loops"]["fit"]["strategies"][1]["steps"] == 10, "it counts the steps that ddp took"
    assert "tensors" in on["loops"]["fit"]["strategies"][1], "its warm-up was over"


def test_groups_average_more_often(tmp_path: Path) -> None:
    options = "period=4,warmup_steps=1,group_size=2,group_period=2"
    saved = fit(Momentum, tmp_path / "x", options, devices=4, samples=160)
    assert_close(saved["state_dict"], played(Momentum, 4, 160, 1, 4, (2, 2))[-1])
    with pytest.raises(dt.DrivetrainError, match=r"strategy\.group-size"):
        fit(Momentum, tmp_path / "y", "group_size=3,group_period=2", devices=2)
    with pytest.raises(dt.DrivetrainError, match=r"strategy\.group-size"):
        fit(Momentum, tmp_path / "y", "group_size=2", devices=2)


def test_an_average_after_every_plain_step_is_ddp(tmp_path: Path) -> None:
    class Plain(Regression):
        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.05)

    for extra in ({}, {"accumulate_grad_batches": 3}):
        # 75 samples: the last batch is smaller, and one rank has none in the last step.
        ours = fit(Plain, tmp_path / "a", "period=1,warmup_steps=0", samples=75, **extra)
        ddp = fit(Plain, tmp_path / "b", "", strategy="ddp", samples=75, **extra)
        assert_close(ours["state_dict"], ddp["state_dict"])


class Hand(ByHand):
    """Keeps, of each batch, whether ranks were alike when it came."""

    def __init__(self) -> None:
        super().__init__()
        self.alike: list[bool] = []

    def training_step(self, batch: Any, batch_idx: int) -> None:
        sums = [one.sum().item() for one in self.parameters()]
        one, other = self.trainer.collectives.all_gather_object(sums)
        self.alike.append(one == other)
        super().training_step(batch, batch_idx)


def test_optimization_by_hand_averages_once_all_optimizers_have_stepped(tmp_path: Path) -> None:
    module = Hand()
    trainer = quiet(max_epochs=1, devices=2, strategy="local_sgd(period=3,warmup_steps=1)")
    trainer.fit(module, loader(80))
    assert module.alike == [True, True, False, False, True, False, False, True, False, False]


def test_averaged_weights_and_a_loss_scale_are_refused(tmp_path: Path) -> None:
    with pytest.raises(dt.DrivetrainError, match=r"callback\.ranks-apart"):
        fit(Regression, tmp_path / "x", "period=2", callbacks=[dt.EMAWeightAveraging()])
    with pytest.raises(dt.PlanError, match="16-mixed"):
        fit(Regression, tmp_path / "x", "period=2", precision="16-mixed")
