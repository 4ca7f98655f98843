from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils.data import IterableDataset

import drivetrain as dt
from tests.loops.models import Regression, data, loader, quiet
from tests.loops.steps import (
    Adversarial,
    ByHand,
    Several,
    Weighted,
    assert_close,
    batches_of,
    joined,
    train,
    train_adversarial,
)


@pytest.mark.parametrize(("num_samples", "factor"), [(40, 4), (39, 4), (37, 2), (8, 8)])
def test_a_window_is_one_large_batch_and_the_last_is_divided_by_what_it_has(num_samples, factor) -> None:
    module = Regression()
    result = quiet(max_epochs=2, accumulate_grad_batches=factor).fit(module, loader(num_samples))
    steps = joined(batches_of(num_samples), factor)
    assert_close(module, train(Regression(), steps, epochs=2))
    assert (result.steps, result.samples) == (2 * len(steps), 2 * num_samples)


class Endless(IterableDataset):
    """Says how long it is only by ending."""

    def __iter__(self) -> Any:
        return (data(39)[index] for index in range(39))


def test_a_window_of_a_stream_without_length_is_closed_by_its_end() -> None:
    module = Regression()
    stream = torch.utils.data.DataLoader(Endless(), 4)
    assert quiet(max_epochs=1, accumulate_grad_batches=4).fit(module, stream).steps == 3
    assert_close(module, train(Regression(), joined(batches_of(39), 4)))


def test_a_window_spans_epochs_on_request_and_the_last_is_used_at_the_end() -> None:
    module = Regression()
    trainer = quiet(max_epochs=5, accumulate_grad_batches=4, accumulate_across_epochs=True)
    result = trainer.fit(module, loader(8))
    two = batches_of(8)
    steps = [[*two[0], *two[1]] * 2, [*two[0], *two[1]] * 2, [*two[0], *two[1]]]
    assert_close(module, train(Regression(), steps))
    assert result.steps == 3


class Notes(dt.Callback):
    def __init__(self) -> None:
        self.seen: list[Any] = []

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        self.seen.append((trainer.current_epoch, trainer.global_step, trainer.accumulate_grad_batches))


def test_the_factor_may_differ_by_epoch() -> None:
    notes = Notes()
    quiet(max_epochs=3, accumulate_grad_batches={1: 2, 2: 8}, callbacks=[notes]).fit(Regression(), loader(16))
    assert [step for _, step, _ in notes.seen] == [1, 2, 3, 4, 4, 5, 5, 6, 6, 6, 6, 7]
    assert [factor for _, _, factor in notes.seen] == [1] * 4 + [2] * 4 + [8] * 4


@pytest.mark.parametrize("factor", [1, 3])
def test_weights_make_the_mean_exact(factor: int) -> None:
    module = Weighted()
    quiet(max_epochs=1, accumulate_grad_batches=factor).fit(module, loader(39))
    assert_close(module, train(Weighted(), joined(batches_of(39), factor)))


class Masked(Regression):
    def training_step(self, batch, batch_idx):
        return {"loss": self.loss(batch) * 0, "weight": 0}


def test_windows_without_any_weight_change_nothing_into_nan() -> None:
    module = Masked()
    quiet(max_epochs=1, accumulate_grad_batches=2).fit(module, loader(8))
    assert all(one.isfinite().all() for one in module.parameters())


@pytest.mark.parametrize("weight", ["many", torch.ones(3), -1])
def test_a_weight_is_a_number(weight: Any) -> None:
    class Wrong(Regression):
        def training_step(self, batch, batch_idx):
            return {"loss": self.loss(batch), "weight": weight}

    with pytest.raises(dt.ModuleError, match=r"module.step-weight"):
        quiet(max_epochs=1, accumulate_grad_batches=2).fit(Wrong(), loader(8))


class LeavesOut(Regression):
    def training_step(self, batch, batch_idx):
        return None if batch_idx % 2 else super().training_step(batch, batch_idx)


def test_a_step_that_is_left_out_does_not_count_in_its_window() -> None:
    module = LeavesOut()
    result = quiet(max_epochs=1, accumulate_grad_batches=2).fit(module, loader(16))
    assert_close(module, train(Regression(), batches_of(16)[::2], num_samples=16))
    assert (result.steps, result.samples) == (2, 8)


def test_gradients_are_clipped_over_all_parameters_together() -> None:
    module = Regression()
    quiet(max_epochs=1, gradient_clip_val=0.1, accumulate_grad_batches=2).fit(module, loader(39))
    assert_close(module, train(Regression(), joined(batches_of(39), 2), clip=0.1))


class Norms(dt.Callback):
    def __init__(self) -> None:
        self.largest: list[float] = []

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        self.largest.append(max(one.grad.abs().max().item() for one in module.parameters()))


def test_clipping_by_value_and_in_a_way_of_ones_own() -> None:
    norms = Norms()
    trainer = quiet(max_epochs=1, gradient_clip_val=1e-3, gradient_clip_algorithm="value", callbacks=[norms])
    trainer.fit(Regression(), loader(8))
    assert all(largest == pytest.approx(1e-3) for largest in norms.largest)

    class Own(Regression):
        def configure_gradient_clipping(self, optimizer, gradient_clip_val, gradient_clip_algorithm):
            self.clip_gradients(optimizer, gradient_clip_val / 10, gradient_clip_algorithm)

    norms.largest.clear()
    trainer.fit(Own(), loader(8))
    assert all(largest == pytest.approx(1e-4) for largest in norms.largest)


def test_several_optimizers_step_with_one_loss_and_clip_on_their_own() -> None:
    module, reference = Several(), Several()
    result = quiet(max_epochs=1, accumulate_grad_batches=2).fit(module, loader(16))
    entries = reference.configure_optimizers()
    first, second = entries["first"]["optimizer"], entries["second"]
    for step in joined(batches_of(16), 2):
        reference.zero_grad()
        reference.loss(data(16)[step]).backward()
        torch.nn.utils.clip_grad_norm_(reference.net[0].parameters(), 0.05)
        first.step()
        second.step()
    assert_close(module, reference)
    assert result.steps == 2


@pytest.mark.parametrize("factor", [1, 2])
def test_a_step_is_called_for_each_optimizer_that_it_asks_for(factor: int) -> None:
    module, notes = Adversarial(), Notes()
    trainer = quiet(max_epochs=1, accumulate_grad_batches=factor, callbacks=[notes])
    result = trainer.fit(module, loader(39))
    assert_close(module, train_adversarial(Adversarial(), batches_of(39), factor))
    assert result.steps == -(-10 // factor)  # of the training loop, not of every optimizer
    assert all(one.requires_grad for one in module.parameters())

    class ByName(Adversarial):
        def configure_optimizers(self):
            return dict(zip(("generator", "critic"), super().configure_optimizers(), strict=True))

        def training_step(self, batch, batch_idx, optimizer_name):
            return self.losses(batch, ("generator", "critic").index(optimizer_name))

    named = ByName()
    trainer.fit(named, loader(39))
    assert_close(named, module, 0)


def test_manual_optimization_steps_by_hand_and_counts_batches() -> None:
    calls: list[str] = []

    class Hooks(dt.Callback):
        def on_before_backward(self, trainer, module, loss):
            calls.append("backward")

        def on_before_optimizer_step(self, trainer, module, optimizer):
            calls.append(type(optimizer).__name__)

    module = ByHand()
    result = quiet(max_steps=7, callbacks=[Hooks()]).fit(module, loader(39))
    assert_close(module, train_adversarial(Adversarial(), batches_of(39)[:7], clip=0.5))
    assert result.steps == 7
    assert calls == ["backward", "SGD"] * 14
    module.optimizers  # noqa: B018 - the optimizers' hooks are gone with the run
    for given in ({"gradient_clip_val": 1.0}, {"accumulate_grad_batches": 2}):
        with pytest.raises(dt.ModuleError, match=r"module.manual"):
            quiet(max_epochs=1, **given).fit(ByHand(), loader(8))


class Closure(Regression):
    def configure_optimizers(self):
        return torch.optim.LBFGS(self.parameters(), lr=0.5, max_iter=5)


def test_an_optimizer_that_evaluates_again_gets_a_closure() -> None:
    module, reference = Closure(), Closure()
    quiet(max_epochs=1).fit(module, loader(16))
    optimizer = reference.configure_optimizers()
    for step in batches_of(16):

        def closure(step: list[int] = step) -> torch.Tensor:
            optimizer.zero_grad()
            loss = reference.loss(data(16)[step])
            loss.backward()
            return loss

        optimizer.step(closure)
    assert_close(module, reference, 0)
    with pytest.raises(dt.ModuleError, match=r"module.closure"):
        quiet(max_epochs=1, accumulate_grad_batches=2).fit(Closure(), loader(16))


class Replaces(Regression):
    """Overrides every part of the step, and leaves it as it is."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []

    def backward(self, loss):
        self.calls.append("backward")
        super().backward(loss)

    def optimizer_zero_grad(self, epoch, batch_idx, optimizer):
        self.calls.append("zero_grad")
        super().optimizer_zero_grad(epoch, batch_idx, optimizer)

    def optimizer_step(self, epoch, batch_idx, optimizer, optimizer_closure):
        self.calls.append(f"step {epoch} {batch_idx}")
        super().optimizer_step(epoch, batch_idx, optimizer, optimizer_closure)

    def configure_optimizers(self):
        optimizer = super().configure_optimizers()
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=1.0)]

    def lr_scheduler_step(self, scheduler, metric):
        self.calls.append("schedule")
        super().lr_scheduler_step(scheduler, metric)


def test_each_part_of_a_step_can_be_replaced() -> None:
    module = Replaces()
    quiet(max_epochs=1).fit(module, loader(8))
    assert_close(module, train(Regression(), batches_of(8)), 0)
    one = ["zero_grad", "backward"]
    assert module.calls == ["step 0 0", *one, "step 0 1", *one, "schedule"]

    class Forgets(Regression):
        def optimizer_step(self, epoch, batch_idx, optimizer, optimizer_closure):
            optimizer.step()

    with pytest.raises(dt.ModuleError, match=r"module.closure[\s\S]*did not call"):
        quiet(max_epochs=1).fit(Forgets(), loader(8))


@pytest.mark.parametrize("bound", [{"max_steps": "16 samples"}, {"max_epochs": "0.4 epochs"}])
def test_a_bound_within_a_window_steps_with_what_is_there(bound: dict) -> None:
    module = Regression()
    trainer = quiet(accumulate_grad_batches=3, **bound)
    result = trainer.fit(module, loader(40))
    assert (result.steps, result.samples) == (2, 16)
    assert_close(module, train(Regression(), [list(range(12)), list(range(12, 16))], num_samples=40))
