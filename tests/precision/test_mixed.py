"""16-mixed, against loops that are written by hand with torch.autocast and torch's own scaler."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch

import drivetrain as dt
from tests.loops.models import Regression, data, differing, loader, quiet
from tests.loops.steps import Adversarial, ByHand, Several, assert_close

Batches = Sequence[Any]


class Weights(dt.Callback):
    """Keeps the weights and the scale after each batch."""

    def __init__(self) -> None:
        self.weights: list[torch.Tensor] = []
        self.scales: list[float] = []

    def on_train_batch_end(self, trainer: Any, module: Any, *_: Any) -> None:
        self.weights.append(flat(module))
        self.scales.append(trainer.precision_plugin.scale)


def flat(module: torch.nn.Module) -> torch.Tensor:
    return torch.cat([one.detach().reshape(-1) for one in module.parameters()])


def batches(num_samples: int = 39, size: int = 4) -> list[Any]:
    samples = data(num_samples)
    return [samples[list(range(num_samples))[at : at + size]] for at in range(0, num_samples, size)]


def scaled(**given: Any) -> dt.MixedPrecision:
    return dt.MixedPrecision("16-mixed", **given)


class ByTorch:
    """The parts of a loop by hand: one scaler, and a step of one optimizer or several."""

    def __init__(self, module: Any, init_scale: float = 65536.0, growth_interval: int = 2000) -> None:
        self.module = module
        self.scaler = torch.amp.GradScaler("cpu", init_scale=init_scale, growth_interval=growth_interval)

    def backward(self, loss: Callable[[], torch.Tensor], part: float = 1.0) -> None:
        with torch.autocast("cpu", dtype=torch.float16):
            found = loss()
        self.scaler.scale(found * part).backward()

    def step(self, optimizer: torch.optim.Optimizer, clip: Callable[[Any], Any] | None = None) -> None:
        self.scaler.unscale_(optimizer)
        if clip is not None:
            clip([one for group in optimizer.param_groups for one in group["params"]])
        self.scaler.step(optimizer)


def _norm(parameters: Any) -> None:
    torch.nn.utils.clip_grad_norm_(parameters, 0.5)


def _value(parameters: Any) -> None:
    torch.nn.utils.clip_grad_value_(parameters, 0.05)


def train(factor: int = 1, clip: Any = None, epochs: int = 2, **options: Any) -> list[torch.Tensor]:
    """Return the weights after each batch of a loop by hand."""
    module, found = Regression(), []
    optimizer, hand = module.configure_optimizers(), ByTorch(module, **options)
    every = batches(40)
    for _ in range(epochs):
        for number, batch in enumerate(every):
            first = number - number % factor
            window = every[first : first + factor]
            if number == first:
                optimizer.zero_grad()
            part = len(batch[0]) / sum(len(x) for x, _ in window)
            hand.backward(lambda batch=batch: module.loss(batch), part)
            if batch is window[-1]:
                hand.step(optimizer, clip)
                hand.scaler.update()
            found.append(flat(module))
    return found


class Overridden(Regression):
    """Steps by the hook."""

    def optimizer_step(self, epoch: int, batch_idx: int, optimizer: Any, optimizer_closure: Any) -> None:
        optimizer.step(closure=optimizer_closure)


class Manual(Regression):
    """Steps by hand, in the way that `how` says."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.automatic_optimization, self.how = False, how

    def training_step(self, batch: Any, batch_idx: int) -> None:
        optimizer = self.optimizers()

        def gradients() -> torch.Tensor:
            optimizer.zero_grad()
            loss = self.loss(batch)
            self.manual_backward(loss)
            return loss

        if self.how == "closure":
            assert optimizer.step(gradients).dtype is torch.float32
        elif self.how == "named closure":
            optimizer.step(closure=gradients)
        else:
            gradients()
            if self.how == "clip":
                self.clip_gradients(optimizer, gradient_clip_val=0.5)
            optimizer.step()


@pytest.mark.parametrize(
    ("make", "flags", "hand"),
    [
        (Regression, {}, {}),
        (Regression, {"gradient_clip_val": 0.5}, {"clip": _norm}),
        (
            Regression,
            {"gradient_clip_val": 0.05, "gradient_clip_algorithm": "value"},
            {"clip": _value},
        ),
        (Regression, {"accumulate_grad_batches": 4}, {"factor": 4}),
        (Regression, {"accumulate_grad_batches": 3, "gradient_clip_val": 0.5}, {"factor": 3, "clip": _norm}),
        (Overridden, {}, {}),
        (Overridden, {"gradient_clip_val": 0.5}, {"clip": _norm}),
        (lambda: Manual("plain"), {}, {}),
        (lambda: Manual("clip"), {}, {"clip": _norm}),
        (lambda: Manual("closure"), {}, {}),
        (lambda: Manual("named closure"), {}, {}),
    ],
)
def test_each_step_is_that_of_a_loop_by_hand(make: Any, flags: Any, hand: Any) -> None:
    """The first scale overflows, and the scale grows within the run."""
    seen, module = Weights(), make()
    options = {"init_scale": 2.0**17, "growth_interval": 3}
    quiet(max_epochs=2, plugins=[scaled(**options)], callbacks=[seen], **flags).fit(module, loader(40))
    expected = train(**hand, **options)
    assert len(seen.weights) == len(expected) == 20
    for mine, theirs in zip(seen.weights, expected, strict=True):
        torch.testing.assert_close(mine, theirs, atol=1e-7, rtol=0)
    assert not torch.equal(seen.weights[0], seen.weights[-1])
    assert len(set(seen.scales)) > 1


def test_it_trains_as_far_as_float32() -> None:
    found = []
    for precision in ("32-true", "16-mixed"):
        module = Regression()
        trainer = quiet(max_epochs=30, precision=precision)
        trainer.fit(module, loader())
        assert {one.dtype for one in module.parameters()} == {torch.float32}
        found.append(Regression.loss(module, data(39)[:]).item())
    assert found[0] < 0.1
    assert abs(found[0] - found[1]) < 1e-2


class Overflows(Regression):
    """Its loss is inf in one step, and the first step has a scale that overflows nothing."""

    at = 3

    def __init__(self) -> None:
        super().__init__()
        self.stepped: list[int] = []

    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        return super().training_step(batch, batch_idx) * (torch.inf if batch_idx == self.at else 1.0)

    def on_before_optimizer_step(self, optimizer: Any) -> None:
        self.stepped.append(self.trainer.global_step)

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.AdamW(self.parameters(), lr=0.01)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
        return [optimizer], [{"scheduler": scheduler, "interval": "step"}]


class OverflowsOverridden(Overflows):
    optimizer_step = Overridden.optimizer_step


class OverflowsByHand(Overflows):
    def __init__(self) -> None:
        super().__init__()
        self.automatic_optimization = False

    def training_step(self, batch: Any, batch_idx: int) -> None:
        optimizer = self.optimizers()
        optimizer.zero_grad()
        self.manual_backward(Overflows.loss(self, batch) * (torch.inf if batch_idx == self.at else 1.0))
        self.clip_gradients(optimizer, gradient_clip_val=10.0)
        optimizer.step()
        self.lr_schedulers().step()


@pytest.mark.parametrize("make", [Overflows, OverflowsOverridden, OverflowsByHand])
@pytest.mark.parametrize("at", [0, 3])
def test_a_step_that_overflows_is_left_out_and_the_scale_halves(make: type[Overflows], at: int) -> None:
    module, seen = make(), Weights()
    module.at = at
    start = flat(module)
    trainer = quiet(max_epochs=1, plugins=[scaled(init_scale=1024.0)], callbacks=[seen])
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # torch warns of a scheduler that steps before any optimizer
        result = trainer.fit(module, loader())
    weights = [start, *seen.weights]
    same = [torch.equal(one, other) for one, other in itertools.pairwise(weights)]
    assert same == [number == at for number in range(10)]
    assert seen.scales == [1024.0] * at + [512.0] * (10 - at)
    # It counts: the batch was used up, and schedules go on.
    assert (result.steps, trainer.global_step) == (10, 10)
    assert module.stepped == [number for number in range(10) if number != at]
    assert trainer.lr_scheduler_configs[0].scheduler.get_last_lr() == [0.01 * 0.5**10]
    assert trainer.precision_plugin.num_left_out == 1
    assert trainer.optimizers[0].state[next(module.parameters())]["step"] == 9
    assert flat(module).isfinite().all()


def test_what_overflowed_can_be_looked_at() -> None:
    class Looks(OverflowsByHand):
        def training_step(self, batch: Any, batch_idx: int) -> None:
            super().training_step(batch, batch_idx)
            assert all(one.grad.isfinite().all() == (batch_idx != self.at) for one in self.parameters())

    quiet(max_epochs=1, plugins=[scaled(init_scale=1024.0)]).fit(Looks(), loader())


def test_two_optimizers_share_one_scale() -> None:
    seen, module, other = Weights(), Several(), Several()
    options = {"init_scale": 2.0**17, "growth_interval": 3}
    quiet(max_epochs=1, plugins=[scaled(**options)], callbacks=[seen]).fit(module, loader())
    made = other.configure_optimizers()
    first, second = made["first"]["optimizer"], made["second"]
    hand = ByTorch(other, **options)
    for batch in batches():
        other.zero_grad()
        hand.backward(lambda batch=batch: other.loss(batch))
        hand.step(first, _tight)
        hand.step(second)
        hand.scaler.update()
    torch.testing.assert_close(seen.weights[-1], flat(other), atol=1e-7, rtol=0)


def _tight(parameters: Any) -> None:
    torch.nn.utils.clip_grad_norm_(parameters, 0.05)


@pytest.mark.parametrize(("make", "clip"), [(Adversarial, None), (ByHand, _norm)])
def test_optimizers_in_turn_equal_a_loop_by_hand(make: Any, clip: Any) -> None:
    seen, module, other = Weights(), make(), Adversarial()
    options = {"init_scale": 2.0**12, "growth_interval": 50}
    quiet(max_epochs=1, plugins=[scaled(**options)], callbacks=[seen]).fit(module, loader())
    optimizers, hand = other.configure_optimizers(), ByTorch(other, **options)
    for batch in batches():
        for which, optimizer in enumerate(optimizers):
            other.zero_grad()
            hand.backward(lambda batch=batch, which=which: other.losses(batch, which))
            hand.step(optimizer, clip)
        hand.scaler.update()
    torch.testing.assert_close(seen.weights[-1], flat(other), atol=1e-7, rtol=0)
    assert len(seen.weights) == 10


class Uneven(Adversarial):
    """One optimizer steps twice in a batch, the other every third batch, with gradients of all that time."""

    def __init__(self) -> None:
        super().__init__()
        self.automatic_optimization = False

    def training_step(self, batch: Any, batch_idx: int) -> None:
        net, critic = self.optimizers()
        for _ in range(2):
            critic.zero_grad()
            self.manual_backward(self.critic(self(batch[0]).detach()).square().mean())
            critic.step()
        self.manual_backward(self.loss(batch) / 3)
        if batch_idx % 3 == 2:
            net.step()
            net.zero_grad()


def test_gradients_that_are_collected_longer_come_to_the_new_scale() -> None:
    """The scale doubles at every step, so that gradients of three scales meet; the run is that of one."""
    growing, still = Uneven(), Uneven()
    seen = Weights()
    quick, slow = scaled(init_scale=1.0, growth_interval=1), scaled(init_scale=1024.0)
    trainer = quiet(max_steps=6, plugins=[quick], callbacks=[seen])
    trainer.fit(growing, loader(44))
    quiet(max_steps=6, plugins=[slow]).fit(still, loader(44))
    assert seen.scales == [4.0, 16.0, 128.0, 512.0, 2048.0, 16384.0]
    assert trainer.precision_plugin.num_left_out == 0
    assert_close(growing, still, tolerance=1e-4)
    assert not torch.equal(flat(growing), flat(Uneven()))


@pytest.mark.parametrize("is_manual", [False, True])
def test_an_optimizer_that_evaluates_the_loss_itself_is_refused(is_manual: bool) -> None:
    class Searching(Regression):
        def configure_optimizers(self) -> Any:
            return torch.optim.LBFGS(self.parameters())

    module = Searching()
    module.automatic_optimization = not is_manual
    with pytest.raises(dt.ModuleError, match=r"(?s)module.closure.*LBFGS.*16-mixed.*bf16-mixed"):
        quiet(max_steps=1, precision="16-mixed").fit(module, loader())


def test_without_manual_backward_nothing_is_scaled_or_unscaled() -> None:
    class Own(Regression):
        def __init__(self) -> None:
            super().__init__()
            self.automatic_optimization = False

        def training_step(self, batch: Any, batch_idx: int) -> None:
            optimizer = self.optimizers()
            optimizer.zero_grad()
            self.loss(batch).backward()
            optimizer.step()

    module = Own()
    quiet(max_epochs=1, precision="16-mixed").fit(module, loader())
    assert_close(module, _plainly(), tolerance=1e-7)


def _plainly() -> Regression:
    module = Regression()
    optimizer = module.configure_optimizers()
    for batch in batches():
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = module.loss(batch)
        loss.backward()
        optimizer.step()
    return module


def test_a_parameter_without_gradient_teaches_the_scale_nothing() -> None:
    class Idle(Regression):
        def __init__(self) -> None:
            super().__init__()
            self.idle = torch.nn.Linear(2, 2)

        def configure_optimizers(self) -> Any:
            return [torch.optim.SGD(part.parameters(), lr=0.1) for part in (self.idle, self.net)]

    class OnlyIdle(Idle):
        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.idle.parameters(), lr=0.1)

    for make, scale in ((Idle, 64.0), (OnlyIdle, 4.0)):
        trainer = quiet(max_steps=4, plugins=[scaled(init_scale=4.0, growth_interval=1)])
        trainer.fit(make(), loader())
        assert trainer.precision_plugin.scale == scale


def test_resuming_is_exact_with_the_scale() -> None:
    report = quiet(plugins=[scaled(init_scale=2.0**17, growth_interval=4)]).verify_resume(
        Regression(dropout=0.2), loader(), steps=14
    )
    assert report.is_exact, report


def test_resuming_is_exact_where_gradients_wait_in_manual_optimization(tmp_path: Any) -> None:
    options = {"init_scale": 1.0, "growth_interval": 1}
    report = quiet(plugins=[scaled(**options)]).verify_resume(Uneven(), loader(44), steps=8)
    assert report.is_exact, report

    # And in a run without a scale they have their true size.
    whole, other, path = Uneven(), Uneven(), tmp_path / "a.ckpt"
    trainer = quiet(max_steps=6, plugins=[scaled(**options)], callbacks=[Saves(path, 3)])
    trainer.fit(whole, loader(44))
    quiet(max_steps=6, precision="32-true").fit(other, loader(44), ckpt_path=path)
    assert_close(other.net, whole.net, tolerance=1e-4)  # theirs are the gradients that waited


class Saves(dt.Callback):
    def __init__(self, path: Any, at: int) -> None:
        self.path, self.at = path, at

    def on_train_batch_end(self, trainer: Any, module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        if batch_idx == self.at:
            trainer.save_checkpoint(self.path)


class Plain(Regression):
    """Its step is as large as its gradients."""

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.1)


@pytest.mark.parametrize("at", [4, 5])  # within a window of three, and between two
def test_a_checkpoint_of_a_scaled_run(tmp_path: Any, at: int) -> None:
    path, flags = tmp_path / "a.ckpt", {"max_epochs": 1, "accumulate_grad_batches": 3}
    options = {"init_scale": 2.0**12, "growth_interval": 1}
    whole = Plain()
    trainer = quiet(plugins=[scaled(**options)], callbacks=[Saves(path, at)], **flags)
    trainer.fit(whole, loader())
    trainer.save_checkpoint(tmp_path / "whole.ckpt")
    kept = torch.load(path, weights_only=True)["loops"]["fit"]["precision"]
    assert kept["scale"] == (2.0**13 if at == 4 else 2.0**14)

    # It goes on bit by bit in the same format: the options are the run's, the scale the file's.
    again = quiet(plugins=[scaled(growth_interval=1)], **flags)
    again.fit(Plain(), loader(), ckpt_path=path)
    again.save_checkpoint(tmp_path / "again.ckpt")
    ends = [torch.load(tmp_path / f"{name}.ckpt", weights_only=True) for name in ("whole", "again")]
    assert differing(*[_without_plan(end) for end in ends]) == []

    # Without a scale, and from a run without one: gradients of the open window come at their true size.
    for precision in ("32-true", "bf16-mixed", "64-true"):
        module = Plain()
        quiet(precision=precision, **flags).fit(module, loader(), ckpt_path=path)
        assert_close(module.float(), whole, tolerance=2e-2 if precision == "bf16-mixed" else 2e-3)
    reference = Plain()
    quiet(callbacks=[Saves(tmp_path / "b.ckpt", at)], **flags).fit(reference, loader())
    module = Plain()
    resumed = quiet(plugins=[scaled(**options)], **flags)
    resumed.fit(module, loader(), ckpt_path=tmp_path / "b.ckpt")
    assert_close(module, reference, tolerance=2e-3)
    assert resumed.precision_plugin.scale > 2.0**12


def _without_plan(checkpoint: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in checkpoint.items() if name not in ("plan", "callbacks")}


@pytest.mark.parametrize("wrong", [{"scale": 0.0}, {"scale": "x"}, {"_growth_tracker": None}, {"lacks": 1}])
def test_a_damaged_scale_is_told(tmp_path: Any, wrong: dict[str, Any]) -> None:
    trainer = quiet(max_steps=1, precision="16-mixed")
    trainer.fit(Regression(), loader())
    trainer.save_checkpoint(tmp_path / "a.ckpt")
    checkpoint = torch.load(tmp_path / "a.ckpt", weights_only=True)
    kept = checkpoint["loops"]["fit"]["precision"]
    checkpoint["loops"]["fit"]["precision"] = wrong if "lacks" in wrong else {**kept, **wrong}
    torch.save(checkpoint, tmp_path / "a.ckpt")
    with pytest.raises(dt.CheckpointError, match=r"checkpoint.damaged.*precision"):
        quiet(max_steps=2, precision="16-mixed").fit(Regression(), loader(), ckpt_path=tmp_path / "a.ckpt")


def test_an_object_is_what_each_run_begins_with_and_stays_so() -> None:
    mine = scaled(init_scale=2.0**17, growth_interval=5)
    trainer = quiet(max_steps=2, plugins=[mine])
    scales = []
    for _ in range(2):
        trainer.fit(Regression(), loader())
        scales.append(trainer.precision_plugin.scale)
    assert scales[0] == scales[1] < 2.0**17
    assert (mine.scaler, mine.scale, mine.num_left_out) == (None, 1.0, 0)
    assert (mine.init_scale, mine.growth_interval) == (2.0**17, 5)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"name": "bf16-mixed", "init_scale": 2.0}, "bf16-mixed does not scale the loss"),
        ({"name": "16-mixed", "init_scale": 0}, "init_scale is a finite number above 0"),
        ({"name": "16-mixed", "init_scale": float("inf")}, "init_scale is a finite number above 0"),
        ({"name": "16-mixed", "growth_interval": True}, "growth_interval is a whole number above 0"),
        ({"name": "16-mixed", "growth_interval": 2.5}, "growth_interval is a whole number above 0"),
    ],
)
def test_options_that_mean_nothing_are_refused(given: dict[str, Any], says: str) -> None:
    with pytest.raises(dt.TrainerError, match=says) as caught:
        dt.MixedPrecision(**given)
    assert caught.value.code == "trainer.bad-argument"


def test_bf16_mixed_has_no_scale() -> None:
    trainer = quiet(max_steps=2, precision="bf16-mixed")
    trainer.fit(Regression(), loader())
    plugin = trainer.precision_plugin
    assert (plugin.scaler, plugin.scale, plugin.state_dict(), plugin.scales_loss) == (None, 1.0, {}, False)
