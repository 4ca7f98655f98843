from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torchmetrics

import drivetrain as dt
from drivetrain.collectives.single import SingleCollectives
from drivetrain.loops.results import TRAIN_EPOCH, TRAIN_STEP, Part, Results
from drivetrain.loops.slots import Slot, merged
from drivetrain.modules.run import LogOptions

CPU = torch.device("cpu")


def training() -> Results:
    results = Results(SingleCollectives(), CPU, torch.nn.Module())
    results.enter(TRAIN_STEP, in_step=True)
    return results


def test_an_epoch_is_the_mean_over_samples_whatever_the_batches() -> None:
    results = training()
    for step, (value, size) in enumerate([(1.0, 4), (2.0, 4), (torch.tensor(6.0), 1), (9.0, 0)]):
        results.at_batch(step, size)
        results.log("both", value, LogOptions(on_step=True, on_epoch=True))
        results.log("own", value, LogOptions(on_epoch=True, on_step=False, batch_size=1))
    found = results.reduce_epoch({TRAIN_STEP: Part()})[TRAIN_STEP]
    assert found["both"].item() == found["both_epoch"].item() == pytest.approx((4 + 8 + 6) / 9, abs=1e-15)
    assert found["own"].item() == 3.0
    assert results.metrics()["both_step"].item() == 9.0


def test_defaults_are_the_step_in_training_and_the_epoch_elsewhere() -> None:
    results = training()
    results.log("step", 1.0, LogOptions())
    results.enter(TRAIN_EPOCH)
    results.log("epoch", 2.0, LogOptions(prog_bar=True))
    assert results.metrics() == {"step": torch.tensor(1.0), "epoch": torch.tensor(2.0)}
    assert results.progress_bar() == {}
    results.reduce_epoch({TRAIN_EPOCH: Part(), TRAIN_STEP: Part()})
    assert results.metrics() == {"step": torch.tensor(1.0), "epoch": torch.tensor(2.0)}
    assert results.progress_bar() == {"epoch": torch.tensor(2.0)}


def test_a_name_is_kept_in_one_way() -> None:
    results = training()
    results.log("a", 1.0, LogOptions())
    with pytest.raises(dt.ModuleError, match=r"module.log-options[\s\S]*prog_bar += .*True, before False"):
        results.log("a", 1.0, LogOptions(prog_bar=True))


@pytest.mark.parametrize("value", ["x", None, torch.ones(2), [1.0], object()])
def test_only_numbers_and_scalars_are_logged(value) -> None:
    with pytest.raises(dt.ModuleError, match=r"module.log-value\] self.log\('a'"):
        training().log("a", value, LogOptions())


@pytest.mark.parametrize("value", [10**400, torch.ones(1, dtype=torch.complex64), 1j, np.ones(2)])
def test_what_is_no_real_number_is_refused(value) -> None:
    with pytest.raises(dt.ModuleError, match=r"module.log-value"):
        training().log("a", value, LogOptions())


@pytest.mark.parametrize("name", ["", None, 3, ["a"]])
def test_a_value_has_a_name(name) -> None:
    with pytest.raises(dt.ModuleError, match=r"module.log-value"):
        training().log(name, 1.0, LogOptions())


@pytest.mark.parametrize("value", [np.ones(1), np.float32(1), np.int64(1), np.ones((1, 1)), True])
def test_one_number_is_one_however_it_is_wrapped(value) -> None:
    results = training()
    results.log("a", value, LogOptions())
    assert results.metrics()["a"] == 1


def test_a_buffer_that_changes_later_was_logged_as_it_was() -> None:
    results, buffer = training(), torch.zeros(())
    results.log("a", buffer, LogOptions(on_epoch=True))
    buffer += 5
    assert results.reduce_epoch({TRAIN_STEP: Part()})[TRAIN_STEP]["a"].item() == 0.0


@pytest.mark.parametrize("cut", [3, 256, 300, 511])
def test_sums_go_on_bit_for_bit_from_a_state(cut: int) -> None:
    values = torch.rand(600, generator=torch.Generator().manual_seed(0))
    whole = Slot(LogOptions(), on_step=False, on_epoch=True)
    part = Slot(LogOptions(), on_step=False, on_epoch=True)
    for index, value in enumerate(values):
        whole.add(value, 3)
        if index == cut:
            part = Slot.from_state(part.state_dict(), CPU)
        part.add(value, 3)
    assert part.value().item() == whole.value().item()
    assert whole.value().item() == pytest.approx(values.double().mean().item(), abs=1e-15)


@pytest.mark.parametrize(
    ("fx", "expected"),
    [
        ("mean", (1.0 * 4 + 5.0 * 4 + 3.0) / 9),
        (torch.mean, (1.0 * 4 + 5.0 * 4 + 3.0) / 9),
        ("sum", 9.0),
        (sum, 9.0),
        ("min", 1.0),
        ("max", 5.0),
        (torch.max, 5.0),
        (torch.median, 3.0),
        (lambda values: values[0] - values[-1], -2.0),
    ],
)
def test_an_epochs_value_is_made_by_the_operation_that_was_said(fx, expected) -> None:
    results = training()
    for step, (value, size) in enumerate([(1.0, 4), (5.0, 4), (3.0, 1)]):
        results.at_batch(step, size)
        results.log("a", value, LogOptions(on_step=False, on_epoch=True, reduce_fx=fx))
    assert results.reduce_epoch({TRAIN_STEP: Part()})[TRAIN_STEP]["a"].item() == pytest.approx(expected)


@pytest.mark.parametrize("options", [{"reduce_fx": "average"}, {"rank_fx": 3}, {"reduce_fx": []}])
def test_an_operation_is_a_known_one_or_a_function(options: dict) -> None:
    with pytest.raises(dt.ModuleError, match=r"module.log-reduction"):
        training().log("a", 1.0, LogOptions(**options))


def test_a_function_that_is_made_anew_each_step_is_the_same_operation() -> None:
    results = training()
    for step in range(3):
        results.at_batch(step, 1)
        results.log("a", float(step), LogOptions(on_epoch=True, reduce_fx=lambda values: values.max()))
    assert results.reduce_epoch({TRAIN_STEP: Part()})[TRAIN_STEP]["a"].item() == 2.0


@pytest.mark.parametrize("fx", ["mean", "sum", "min", "max"])
def test_what_several_ranks_kept_is_put_together_exactly(fx: str) -> None:
    values = torch.rand(600, generator=torch.Generator().manual_seed(0))
    said = LogOptions(reduce_fx=fx)
    whole, halves = (
        Slot(said, on_step=False, on_epoch=True),
        [Slot(said, on_step=False, on_epoch=True) for _ in range(2)],
    )
    for index, value in enumerate(values):
        whole.add(value, index % 3 + 1)
        halves[index % 2].add(value, index % 3 + 1)
    one = Slot.from_state(merged([half.state_dict() for half in halves]), CPU)
    assert one.value().item() == pytest.approx(whole.value().item(), rel=1e-14)


def test_a_value_keeps_its_graph_on_request() -> None:
    results, leaf = training(), torch.ones((), requires_grad=True)
    results.log("a", leaf * 2, LogOptions(enable_graph=True, on_epoch=True))
    assert results.metrics()["a"].requires_grad
    assert not results.reduce_epoch({TRAIN_STEP: Part()})[TRAIN_STEP]["a"].requires_grad


def test_values_that_are_not_for_loggers_are_not_given_to_them() -> None:
    results = training()
    results.log("kept", 1.0, LogOptions(on_epoch=True))
    results.log("quiet", 1.0, LogOptions(on_epoch=True, logger=False))
    assert set(results.step_values()) == {"kept_step"}
    found = results.reduce_epoch({TRAIN_STEP: Part()})[TRAIN_STEP]
    assert set(found) == {"kept", "kept_epoch", "quiet", "quiet_epoch"}
    assert set(results.for_loggers(found)) == {"kept_epoch"}


def test_an_evaluation_s_value_that_is_kept_both_ways_is_its_epoch_s_afterwards() -> None:
    results = training()
    phase = ("validation", 0)
    results.enter(phase)
    for step, value in enumerate((1.0, 3.0)):
        results.at_batch(step, 1)
        results.log("val", value, LogOptions(on_step=True, on_epoch=True))
    results.reduce_epoch({phase: Part()})
    results.enter(TRAIN_STEP, in_step=True)
    assert results.metrics()["val"].item() == 2.0


def test_what_hooks_around_an_epoch_log_is_there_at_once() -> None:
    results = training()
    for value in (1.0, 2.0):
        results.enter(TRAIN_EPOCH)
        results.log("best", value, LogOptions())
        assert results.metrics()["best"].item() == value
        results.reduce_epoch({TRAIN_EPOCH: Part()})


def test_a_name_that_an_epoch_lacks_has_no_value_in_it() -> None:
    results = training()
    results.log("both", 2.0, LogOptions(on_step=True, on_epoch=True))
    assert results.reduce_epoch({TRAIN_STEP: Part()})[TRAIN_STEP]["both_epoch"].item() == 2.0
    results.enter(TRAIN_STEP, in_step=True)
    assert results.reduce_epoch({TRAIN_STEP: Part()}) == {TRAIN_STEP: {}}
    assert results.metrics()["both_epoch"].item() == 2.0


def test_a_validations_value_stays_the_epochs_when_training_goes_on() -> None:
    results, phase = training(), ("validation", 0)
    results.enter(phase)
    for step, value in enumerate([1.0, 5.0]):
        results.at_batch(step, 1)
        results.log("v", value, LogOptions(on_step=True, on_epoch=True))
    results.reduce_epoch({phase: Part()})
    results.enter(TRAIN_STEP, in_step=True)
    assert results.metrics()["v"].item() == 3.0


@pytest.mark.parametrize(
    ("phase", "options"),
    [
        (("validation epoch", 0), {"on_step": True, "on_epoch": False}),
        (("validation", 0), {"on_step": False, "on_epoch": False}),
    ],
)
def test_what_nothing_would_keep_is_refused(phase: Any, options: dict) -> None:
    results = training()
    results.enter(phase)
    with pytest.raises(dt.ModuleError, match=r"module.log-options"):
        results.log("a", 1.0, LogOptions(**options))
    results.leave()
    with pytest.raises(dt.ModuleError, match=r"module.log-outside"):
        results.log("a", 1.0, LogOptions())


@pytest.mark.parametrize("batch_size", [-1, "2", True, float("nan"), float("inf"), [2], torch.ones(2)])
def test_a_batch_size_is_a_number_of_0_or_more(batch_size) -> None:
    results = training()
    with pytest.raises(dt.ModuleError, match=r"module.log-value.*batch_size"):
        results.log("a", 1.0, LogOptions(batch_size=batch_size))


def test_a_batch_size_may_be_a_tensor_and_is_kept_as_plain_data() -> None:
    results = training()
    for value, size in [(1.0, torch.tensor(3)), (5.0, np.int64(1)), (9.0, 0)]:
        results.log("a", value, LogOptions(on_epoch=True, batch_size=size))
    assert all(type(weight) in (int, float) for weight in results.state_dict()["a"]["weights"])
    assert results.reduce_epoch({TRAIN_STEP: Part()})[TRAIN_STEP]["a"].item() == 2.0


class WithMetrics(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.each = torchmetrics.MeanSquaredError(num_outputs=2)
        self.several = torchmetrics.MetricCollection([torchmetrics.MeanSquaredError()])


def test_a_logged_value_comes_to_one_number() -> None:
    module = WithMetrics()
    results = Results(SingleCollectives(), CPU, module)
    results.enter(TRAIN_EPOCH)
    with pytest.raises(dt.ModuleError, match=r"module.log-value.*several values[\s\S]*log_dict"):
        results.log("all", module.several, LogOptions())
    module.each.update(torch.ones(3, 2), torch.zeros(3, 2))
    results.log("each", module.each, LogOptions())
    with pytest.raises(dt.ModuleError, match=r"module.log-value.*each.*came to a Tensor of shape \(2,\)"):
        results.reduce_epoch({TRAIN_EPOCH: Part()})
    results.clear()
    results.log("a", 1.0, LogOptions(reduce_fx=lambda values: values))
    results.log("a", 2.0, LogOptions(reduce_fx=lambda values: values))
    with pytest.raises(dt.ModuleError, match=r"module.log-value.*lambda.*came to a Tensor of shape \(2,\)"):
        results.reduce_epoch({TRAIN_EPOCH: Part()})
