from __future__ import annotations

import pytest
import torch

import drivetrain as dt
from drivetrain.collectives.single import SingleCollectives
from drivetrain.loops.results import TRAIN_EPOCH, TRAIN_STEP, Part, Results
from drivetrain.loops.slots import Slot
from drivetrain.modules.run import LogOptions

CPU = torch.device("cpu")


def training() -> Results:
    results = Results(SingleCollectives(), CPU)
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
    assert results.metrics() == {"step": torch.tensor(1.0)}
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
    assert part.mean().item() == whole.mean().item()
    assert whole.mean().item() == pytest.approx(values.double().mean().item(), abs=1e-15)
