from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch

import drivetrain as dt
from tests.loops.models import Regression, differing, loader, quiet

BN = "norm.running_mean"


class Normed(Regression):
    """Draws random numbers and has running statistics, so that a run that goes on otherwise shows."""

    def __init__(self) -> None:
        super().__init__(dropout=0.2)
        self.norm = torch.nn.BatchNorm1d(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(self.norm(x))


class Trace(dt.Callback):
    """Keeps the weights after each step, and those that a validation has."""

    is_last = True

    def __init__(self) -> None:
        self.steps: list[dict[str, torch.Tensor]] = []
        self.validated: list[dict[str, torch.Tensor]] = []

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        self.steps.append(copied(module.state_dict()))

    def on_validation_batch_start(self, trainer, module, batch, batch_idx, dataloader_idx=0):
        self.validated.append(copied(module.state_dict()))


class SaveAt(dt.Callback):
    is_last = True

    def __init__(self, path: Path, step: int, hook: str = "on_train_batch_end") -> None:
        self.path, self.step, self.hook = path, step, hook

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        if self.hook == "on_train_batch_end" and trainer.global_step == self.step:
            trainer.save_checkpoint(self.path)

    def on_validation_batch_end(self, trainer, module, outputs, batch, batch_idx, dataloader_idx=0):
        if self.hook == "on_validation_batch_end" and trainer.global_step == self.step:
            trainer.save_checkpoint(self.path)


def copied(state: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in state.items()}


def mean(states: list[dict[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
    return {name: torch.stack([one[name].double() for one in states]).mean(0) for name in states[0]}


def faded(states: list[dict[str, torch.Tensor]], decay: float) -> dict[str, torch.Tensor]:
    found = {name: one.double() for name, one in states[0].items()}
    for state in states[1:]:
        found = {name: decay * one + (1 - decay) * state[name] for name, one in found.items()}
    return found


def assert_same(one: Mapping[str, torch.Tensor], other: Mapping[str, torch.Tensor]) -> None:
    assert one.keys() == other.keys()
    for name, value in one.items():
        if value.is_floating_point():
            torch.testing.assert_close(value.double(), other[name].double(), atol=1e-6, rtol=0, msg=name)


def run(average: dt.Callback, *callbacks: dt.Callback, **settings: Any) -> tuple[Normed, Trace, dt.Trainer]:
    torch.manual_seed(1)
    module, trace, ckpt_path = Normed(), Trace(), settings.pop("ckpt_path", None)
    given = {"max_epochs": 2, "callbacks": [average, trace, *callbacks], **settings}
    trainer = quiet(**given)
    trainer.fit(module, loader(20), loader(8), ckpt_path=ckpt_path)
    return module, trace, trainer


def test_a_fit_validates_and_ends_with_the_mean_of_all_steps_weights() -> None:
    average = dt.WeightAveraging()
    module, trace, _ = run(average)
    assert average.n_averaged == 10
    assert_same(module.state_dict(), mean(trace.steps))
    assert_same(trace.validated[0], mean(trace.steps[:5]))
    assert_same(trace.validated[-1], mean(trace.steps))
    plain, unaveraged, _ = run(dt.LambdaCallback())
    assert_same(trace.steps[-1], unaveraged.steps[-1])  # training itself is as it was
    assert not torch.allclose(plain.norm.running_mean, module.norm.running_mean)


def test_buffers_may_be_those_of_the_last_update() -> None:
    module, trace, _ = run(dt.WeightAveraging(use_buffers=False))
    assert_same({BN: module.state_dict()[BN]}, {BN: trace.steps[-1][BN]})
    assert_same(
        dict(module.named_parameters()), {n: mean(trace.steps)[n] for n, _ in module.named_parameters()}
    )


class Odd(dt.WeightAveraging):
    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.asked: list[tuple[int | None, int | None]] = []

    def should_update(self, step_idx=None, epoch_idx=None):
        self.asked.append((step_idx, epoch_idx))
        return step_idx in (1, 4) or epoch_idx == 1


def test_a_subclass_says_when() -> None:
    average = Odd(avg_fn=lambda mine, theirs, count: mine + 10 * theirs)
    module, trace, _ = run(average)
    every = [(step, None) for step in range(10)]
    assert average.asked == [*every[:5], (None, 0), *every[5:], (None, 1)]
    first, second, third = trace.steps[1], trace.steps[4], trace.steps[9]
    name = "net.0.weight"
    assert_same({name: module.state_dict()[name]}, {name: first[name] + 10 * second[name] + 10 * third[name]})


def test_accumulated_batches_are_one_step() -> None:
    average = Odd()
    run(average, accumulate_grad_batches=2)
    assert [step for step, _ in average.asked if step is not None] == [0, 1, 2, 3, 4, 5]


def test_before_the_first_update_there_are_only_the_weights_of_training() -> None:
    average = dt.EMAWeightAveraging(update_starting_at_step=100)
    module, trace, _ = run(average)
    assert_same(module.state_dict(), trace.steps[-1])
    assert_same(trace.validated[0], trace.steps[4])
    assert average.n_averaged == 0


@pytest.mark.parametrize(
    ("given", "used"),
    [
        ({}, range(10)),
        ({"update_every_n_steps": 3}, [0, 3, 6, 9]),
        ({"update_every_n_steps": 2, "update_starting_at_step": 5}, [6, 8]),
        ({"update_starting_at_epoch": 1}, range(5, 10)),
        ({"update_every_n_steps": 3, "update_starting_at_epoch": 0}, [0, 3, 4, 6, 9]),
        ({"update_every_n_steps": 0, "update_starting_at_epoch": 0}, [4, 9]),
    ],
)
def test_an_exponential_average(given: dict[str, Any], used: Any) -> None:
    average = dt.EMAWeightAveraging(decay=0.7, **given)
    module, trace, _ = run(average)
    assert_same(module.state_dict(), faded([trace.steps[step] for step in used], 0.7))
    assert average.n_averaged == len(used)


@pytest.mark.parametrize(
    ("step", "hook"),
    [
        (2, "on_train_batch_end"),
        (5, "on_train_batch_end"),
        (5, "on_validation_batch_end"),
        (8, "on_train_batch_end"),
    ],
)
def test_a_resumed_run_is_the_same_run(tmp_path: Path, step: int, hook: str) -> None:
    made = lambda: dt.EMAWeightAveraging(decay=0.6, update_every_n_steps=2)  # noqa: E731 - shorter than a function
    path = tmp_path / "a.ckpt"
    _, trace, trainer = run(made(), SaveAt(path, step, hook))
    trainer.save_checkpoint(tmp_path / "whole.ckpt")
    found = torch.load(path, weights_only=True)
    assert_same(found["current_model_state"], trace.steps[step - 1])
    assert_same(found["state_dict"], faded(trace.steps[:step:2], 0.6))

    _, _, resumed = run(made(), ckpt_path=path)
    resumed.save_checkpoint(tmp_path / "resumed.ckpt")
    whole, again = (torch.load(tmp_path / f"{name}.ckpt", weights_only=True) for name in ("whole", "resumed"))
    assert not differing(whole, again)
    assert_same(whole["state_dict"], faded(trace.steps[::2], 0.6))


def test_what_was_saved_after_the_fit_goes_on_with_the_weights_of_training(tmp_path: Path) -> None:
    path = tmp_path / "a.ckpt"
    _, trace, trainer = run(dt.WeightAveraging(), max_epochs=1)
    trainer.save_checkpoint(path)
    loaded = Normed.load_from_checkpoint(path)
    assert_same(loaded.state_dict(), mean(trace.steps))
    module, rest, _ = run(dt.WeightAveraging(), max_epochs=2, ckpt_path=path)
    _, whole, _ = run(dt.WeightAveraging(), max_epochs=2)
    assert_same(rest.steps[-1], whole.steps[-1])
    assert_same(module.state_dict(), mean(whole.steps))

    tested = quiet(callbacks=[dt.WeightAveraging()])
    assert tested.test(Normed(), loader(8), ckpt_path=path) == quiet().test(loaded, loader(8))
    trainer.save_checkpoint(tmp_path / "weights.ckpt", weights_only=True)
    assert "current_model_state" not in torch.load(tmp_path / "weights.ckpt", weights_only=True)


def test_going_on_without_the_callback_warns_that_the_average_is_trained(tmp_path: Path) -> None:
    path = tmp_path / "a.ckpt"
    _, _, trainer = run(dt.WeightAveraging(), max_epochs=1)
    trainer.save_checkpoint(path)
    with pytest.warns(dt.DrivetrainWarning, match=r"checkpoint.averaged.*Pass the callback again"):
        _, rest, _ = run(dt.LambdaCallback(), max_epochs=2, ckpt_path=path)
    assert len(rest.steps) == 5
    quiet().test(Normed(), loader(8), ckpt_path=path)  # to test the average is what it was saved for


def test_a_run_without_an_average_may_get_one(tmp_path: Path) -> None:
    path = tmp_path / "a.ckpt"
    run(dt.LambdaCallback(), SaveAt(path, 5))
    module, trace, _ = run(dt.WeightAveraging(), ckpt_path=path)
    assert len(trace.steps) == 5
    assert_same(module.state_dict(), mean(trace.steps))


def test_an_exception_leaves_the_weights_of_training() -> None:
    class Fails(dt.Callback):
        def on_validation_batch_end(self, trainer, module, outputs, batch, batch_idx, dataloader_idx=0):
            raise KeyError("label")

    trace, module = Trace(), Normed()
    trainer = quiet(max_epochs=1, callbacks=[dt.WeightAveraging(), trace, Fails()])
    with pytest.raises(KeyError):
        trainer.fit(module, loader(20), loader(8))
    assert_same(module.state_dict(), trace.steps[-1])


def test_a_second_fit_averages_anew() -> None:
    average, module = dt.WeightAveraging(), Normed()
    for _ in range(2):
        trace = Trace()
        quiet(max_epochs=1, callbacks=[average, trace]).fit(module, loader(20))
        assert_same(module.state_dict(), mean(trace.steps))


@pytest.mark.parametrize(
    "given",
    [
        {"device": "gpu7x"},
        {"use_buffers": 1},
        {"avg_fun": len},
        {"avg_fn": 0.9},
        {"avg_fn": len, "multi_avg_fn": len},
    ],
)
def test_other_arguments_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(dt.ModuleError, match=r"callback.bad-argument.*WeightAveraging"):
        dt.WeightAveraging(**given)


@pytest.mark.parametrize(
    "given",
    [
        {"decay": 1.5},
        {"decay": "0.9"},
        {"update_every_n_steps": -1},
        {"update_every_n_steps": 0},
        {"update_starting_at_step": 1.0},
        {"update_starting_at_epoch": -2},
        {"avg_fn": len},
    ],
)
def test_other_arguments_of_the_exponential_average_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(dt.ModuleError, match=r"callback.bad-argument.*EMAWeightAveraging"):
        dt.EMAWeightAveraging(**given)


@pytest.mark.parametrize(("precision", "warns"), [("bf16-true", True), ("bf16-mixed", False)])
def test_an_average_in_a_short_format_is_warned_of(precision: str, warns: bool) -> None:
    trainer = quiet(max_steps=2, precision=precision, callbacks=dt.EMAWeightAveraging())
    with pytest.warns(dt.DrivetrainWarning, match=r"callback.short-average") if warns else nullcontext():
        trainer.fit(Regression(), loader())
