"""How gradients travel, on several ranks, against the same arithmetic in one process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import drivetrain as dt
from tests.loops.models import differing, quiet
from tests.loops.steps import ByHand

pytestmark = pytest.mark.ranks

NUMBER = 5


class Wide(dt.Module):
    """A matrix that is worth two factors, one that is not, and vectors."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(7)
        self.net = torch.nn.Sequential(torch.nn.Linear(12, 10), torch.nn.Tanh(), torch.nn.Linear(10, 1))

    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        x, y = batch
        return (self.net(x) - y).square().mean()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)


def batches(size: int = 4, num_samples: int = 80) -> DataLoader:
    x = torch.randn(num_samples, 12, generator=torch.Generator().manual_seed(3))
    return DataLoader(TensorDataset(x, x.sum(1, keepdim=True).sin()), size)


class SaveAt(dt.Callback):
    is_last = True

    def __init__(self, step: int, path: Path) -> None:
        self.step, self.path = step, path

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        if trainer.global_step == self.step:
            trainer.save_checkpoint(self.path)


def fit(options: str, path: Path, devices: int = 2, strategy: str = "ddp", **given: Any) -> dict[str, Any]:
    module, ckpt_path = Wide(), given.pop("ckpt_path", None)
    named = f"{strategy}({options})" if options else strategy
    trainer = quiet(max_epochs=1, devices=devices, strategy=named, **given)
    trainer.fit(module, batches(), ckpt_path=ckpt_path)
    trainer.save_checkpoint(path)
    return torch.load(path, weights_only=True)


def played(combine: Any) -> dict[str, torch.Tensor]:
    """Train in one process; ``combine(name, gradients of the ranks)`` returns their average."""
    module = Wide()
    optimizer = module.configure_optimizers()
    data = list(batches())
    for first in range(0, len(data), 2):
        grads = []
        for batch in data[first : first + 2]:
            optimizer.zero_grad()
            module.training_step(batch, 0).backward()
            grads.append({name: one.grad.clone() for name, one in module.named_parameters()})
        for name, one in module.named_parameters():
            one.grad = combine(name, [grad[name] for grad in grads])
        optimizer.step()
    return module.state_dict()


def assert_close(mine: Any, theirs: Any, tolerance: float) -> None:
    for name, one in mine.items():
        torch.testing.assert_close(one, theirs[name], atol=tolerance, rtol=0, msg=name)


@pytest.mark.parametrize(("hook", "dtype"), [("fp16", torch.float16), ("bf16", torch.bfloat16)])
def test_shorter_gradients_are_those_that_were_rounded(hook: str, dtype: torch.dtype, tmp_path: Path) -> None:
    saved = fit(f"comm_hook={hook}", tmp_path / "x")["state_dict"]
    rounded = played(lambda name, grads: sum((one / 2).to(dtype) for one in grads).to(torch.float32))
    assert_close(saved, rounded, 1e-6)
    plain = played(lambda name, grads: sum(grads) / 2)
    assert max((saved[name] - one).abs().max() for name, one in plain.items()) > 1e-5, "they are rounded"
    assert_close(saved, plain, 1e-2)


class Factors:
    """PowerSGD by hand: Vogels et al., algorithms 1 and 2."""

    def __init__(self, first: torch.Tensor, start: int) -> None:
        self.factor, self.start = first, start
        self.errors, self.steps = [torch.zeros(10, 12), torch.zeros(10, 12)], 0

    def __call__(self, name: str, grads: list[torch.Tensor]) -> torch.Tensor:
        if name != "net.0.weight":
            return sum(grads) / 2
        self.steps += 1
        if self.steps <= self.start:
            return sum(grads) / 2
        wholes = [grad + error for grad, error in zip(grads, self.errors, strict=True)]
        left = torch.linalg.qr(sum(one @ self.factor for one in wholes) / 2).Q
        self.factor = sum(one.T @ left for one in wholes) / 2
        found = left @ self.factor.T
        self.errors = [one - found for one in wholes]
        return found


@pytest.mark.parametrize("strategy", ["ddp", "zero1"])
def test_factors_remember_what_they_leave_out_and_go_on_exactly(strategy: str, tmp_path: Path) -> None:
    from drivetrain.strategies.comm_hooks import _first_factor

    options = "comm_hook=powersgd,powersgd_rank=2,powersgd_start=3"
    saved = fit(options, tmp_path / "all", strategy=strategy, callbacks=[SaveAt(6, tmp_path / "six")])
    first = _first_factor("net.0.weight", torch.zeros(10, 12), 2)
    by_hand = Factors(first, 3)
    assert_close(saved["state_dict"], played(by_hand), 1e-6)
    kept = saved["loops"]["fit"]["strategies"]
    assert [one["hook"]["steps"] for one in kept] == [10, 10]
    assert list(kept[0]["hook"]["errors"]) == ["net.0.weight"]
    for rank in range(2):
        torch.testing.assert_close(kept[rank]["hook"]["errors"]["net.0.weight"], by_hand.errors[rank])

    again = fit(options, tmp_path / "again", strategy=strategy, ckpt_path=tmp_path / "six")
    assert not differing(again["state_dict"], saved["state_dict"])
    assert not differing(again["loops"]["fit"]["strategies"], kept)


def test_other_ranks_take_over_what_was_left_out_together(tmp_path: Path) -> None:
    options = "comm_hook=powersgd,powersgd_start=0"
    fit(options, tmp_path / "all", callbacks=[SaveAt(4, tmp_path / "four")])
    four = torch.load(tmp_path / "four", weights_only=True)["loops"]["fit"]["strategies"]
    mean = sum(one["hook"]["errors"]["net.0.weight"] for one in four) / 2

    class Look(dt.Callback):
        def on_train_start(self, trainer, module):
            (one,) = trainer.strategy._averaging._hook.state()["errors"].values()
            torch.testing.assert_close(one, mean)

    fit(options, tmp_path / "three", devices=3, ckpt_path=tmp_path / "four", callbacks=[Look()])
    fit("", tmp_path / "plain", ckpt_path=tmp_path / "four")


def test_a_scaled_loss_leaves_what_was_left_out_of_true_size(tmp_path: Path) -> None:
    options = "comm_hook=powersgd,powersgd_rank=2,powersgd_start=0"
    plain = fit(options, tmp_path / "x")["state_dict"]
    for init_scale in (4.0, 2.0**120):  # the second overflows until it is small enough
        precision = dt.MixedPrecision("16-mixed", init_scale=init_scale, growth_interval=3)
        saved = fit(options, tmp_path / "y", precision=precision)
        errors = saved["loops"]["fit"]["strategies"][0]["hook"]["errors"]
        assert all(torch.isfinite(one).all() for one in errors.values())
        if init_scale == 4.0:
            assert_close(saved["state_dict"], plain, 2e-2)


def divided(group: Any, bucket: Any) -> torch.futures.Future[torch.Tensor]:
    """Sum gradients, and not average them."""
    work = torch.distributed.all_reduce(bucket.buffer(), group=group, async_op=True)
    return work.get_future().then(lambda future: future.value()[0])


def test_a_hook_of_ones_own_and_hooks_that_are_none(tmp_path: Path) -> None:
    saved = fit(f"comm_hook='{__name__}:divided'", tmp_path / "x")["state_dict"]
    assert_close(saved, played(lambda name, grads: sum(grads)), 1e-5)
    for options, says in (
        ("comm_hook=fp8", "fp8"),
        (f"comm_hook='{__name__}:nothing'", "nothing"),
        (f"comm_hook='{__name__}:NUMBER'", "int"),
        ("comm_hook=fp16,powersgd_rank=2", "powersgd"),
        ("powersgd_rank=2", "powersgd"),
    ):
        with pytest.raises(dt.ModuleError, match=rf"strategy\.comm-hook.*\n*.*{says}"):
            fit(options, tmp_path / "x")
    trainer = quiet(max_epochs=1, devices=2, strategy="ddp(comm_hook=fp16)")
    with pytest.raises(dt.ModuleError, match=r"strategy\.comm-hook"):
        trainer.fit(ByHand(), [torch.zeros(2, 4)])
