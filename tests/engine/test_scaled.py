"""The engine in formats whose loss is scaled, and in short ones."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import drivetrain as dt
from drivetrain.compat.engine import Fabric
from tests.loops.models import Regression, data, loader


def engine(**flags: Any) -> dt.Engine:
    return dt.Engine(**{"accelerator": "cpu", "devices": 1, **flags})


def fabric(**flags: Any) -> Fabric:
    return Fabric(**{"accelerator": "cpu", "devices": 1, **flags})


def flat(module: torch.nn.Module) -> torch.Tensor:
    return torch.cat([one.detach().reshape(-1) for one in module.parameters()])


def batches() -> list[Any]:
    samples = data(40)
    return [samples[at : at + 4] for at in range(0, 40, 4)]


SCALED = {"init_scale": 2.0**17, "growth_interval": 3}


def by_torch(norm: float | None = 0.5, factor: int = 1) -> list[torch.Tensor]:
    module, found = Regression(), []
    parts = [torch.optim.AdamW(module.net[number].parameters(), lr=0.01) for number in (0, 3)]
    scaler = torch.amp.GradScaler("cpu", **SCALED)
    for number, (x, y) in enumerate(batches()):
        if number % factor == 0:
            module.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            output = module(x)
        scaler.scale(((output - y) ** 2).mean() / factor).backward()
        if number % factor == factor - 1:
            for one in parts:
                scaler.unscale_(one)
                if norm is not None:
                    torch.nn.utils.clip_grad_norm_(one.param_groups[0]["params"], norm)
                scaler.step(one)
            scaler.update()
        found.append(flat(module))
    return found


@pytest.mark.parametrize("make", [engine, fabric])
@pytest.mark.parametrize(("norm", "factor"), [(None, 1), (0.5, 1), (0.5, 2)])
def test_a_loop_of_ones_own_equals_one_of_torchs(make: Any, norm: float | None, factor: int) -> None:
    module, found = Regression(), []
    parts = [torch.optim.AdamW(module.net[number].parameters(), lr=0.01) for number in (0, 3)]
    made = make(plugins=[dt.MixedPrecision("16-mixed", **SCALED)])
    ready, *parts = made.setup(module, *parts)
    for number, (x, y) in enumerate(made.setup_dataloaders(loader(40))):
        if number % factor == 0:
            ready.zero_grad()
        made.backward(((ready(x) - y) ** 2).mean() / factor)
        if number % factor == factor - 1:
            for one in parts:
                if norm is not None:
                    made.clip_gradients(ready, one, max_norm=norm)
                one.step()
        found.append(flat(module))
    for mine, theirs in zip(found, by_torch(norm, factor), strict=True):
        torch.testing.assert_close(mine, theirs, atol=1e-7, rtol=0)


def test_a_norm_that_overflows_is_no_error_as_the_step_is_left_out() -> None:
    made, module = fabric(precision="16-mixed"), torch.nn.Linear(1, 1)
    ready, optimizer = made.setup(module, torch.optim.SGD(module.parameters(), lr=0.1))
    before = flat(module)
    made.backward(ready(torch.ones(1, 1)).sum() * torch.inf)
    norm = made.clip_gradients(ready, optimizer, max_norm=1.0)
    assert not torch.isfinite(norm)
    optimizer.step()
    assert torch.equal(flat(module), before)
    assert not module.weight.grad.isfinite()
    made.backward(ready(torch.ones(1, 1)).sum())
    assert made.strategy.precision.scale == 2.0**15


def test_losses_through_several_modules_have_one_scale() -> None:
    made = engine(plugins=[dt.MixedPrecision("16-mixed", init_scale=8.0, growth_interval=1)])
    one, two = torch.nn.Linear(1, 1, bias=False), torch.nn.Linear(1, 1, bias=False)
    first, optimizer = made.setup(one, torch.optim.SGD(one.parameters(), lr=0.0))
    second = made.setup_module(two)
    other = made.setup_optimizers(torch.optim.SGD(two.parameters(), lr=0.0))
    for _ in range(3):
        optimizer.zero_grad()
        other.zero_grad()
        made.backward((first(torch.ones(1, 1)) + second(torch.ones(1, 1))).sum())
        optimizer.step()
        other.step()
        assert (one.weight.grad.item(), two.weight.grad.item()) == (1.0, 1.0)
    made.backward(first(torch.ones(1, 1)).sum())
    assert made.strategy.precision.scale == 64.0


def test_the_scale_is_saved_and_loaded(tmp_path: Any) -> None:
    def run(steps: int, *, load: bool = False, save: bool = False, name: str = "model") -> torch.Tensor:
        made = engine(plugins=[dt.MixedPrecision("16-mixed", **SCALED)])
        module = Regression()
        ready, optimizer = made.setup(module, module.configure_optimizers())
        state = {name: ready, "optimizer": optimizer}
        if load:
            rest = made.load(tmp_path / "a.ckpt", state)
            assert sorted(rest) == sorted(state)
        for x, y in batches()[steps - 3 : steps] if load else batches()[:steps]:
            optimizer.zero_grad()
            made.backward(((ready(x) - y) ** 2).mean())
            optimizer.step()
        if save:
            made.save(tmp_path / "a.ckpt", state)
        return flat(module)

    whole = run(7)
    run(4, save=True)
    assert torch.load(tmp_path / "a.ckpt", weights_only=True)["loss_scaler"]["scale"] == 2.0**15
    assert torch.equal(run(7, load=True), whole)
    plain = engine()
    found = plain.load(tmp_path / "a.ckpt", {})
    assert "loss_scaler" not in found


@pytest.mark.parametrize("make", [engine, fabric])
@pytest.mark.parametrize(("precision", "kind"), [("bf16-true", torch.bfloat16), ("16-true", torch.float16)])
def test_short_formats(make: Any, precision: str, kind: torch.dtype) -> None:
    made = make(precision=precision)
    with made.init_module():
        assert torch.nn.Linear(1, 1).weight.dtype is kind
    module = Regression()
    ready, optimizer = made.setup(module, torch.optim.SGD(module.parameters(), lr=0.1))
    losses = []
    for _ in range(10):
        for x, y in made.setup_dataloaders(loader(40)):
            optimizer.zero_grad()
            output = ready(x)
            assert output.dtype is kind
            loss = ((output.float() - y) ** 2).mean()
            made.backward(loss)
            made.clip_gradients(ready, optimizer, max_norm=10.0)
            optimizer.step()
            losses.append(loss.item())
    assert {one.dtype for one in module.parameters()} == {kind}
    assert sum(losses[-10:]) < sum(losses[:10]) * 0.7


def test_an_optimizer_that_evaluates_the_loss_itself_is_refused() -> None:
    made, module = engine(precision="16-mixed"), torch.nn.Linear(1, 1)
    with pytest.raises(dt.ModuleError, match=r"module.closure.*LBFGS"):
        made.setup(module, torch.optim.LBFGS(module.parameters()))


def test_optimizers_are_as_they_were_after_a_launch() -> None:
    module = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(module.parameters(), lr=1.0)

    def main(made: dt.Engine) -> None:
        ready, own = made.setup(module, optimizer)
        made.backward(ready(torch.ones(1, 1)).sum())
        own.step()

    engine(precision="16-mixed").launch(main)
    module.weight.grad, before = torch.ones(1, 1), module.weight.item()
    optimizer.step()
    assert module.weight.item() == pytest.approx(before - 1.0)
