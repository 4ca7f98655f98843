from __future__ import annotations

import pickle
import warnings

import pytest
from drivetrain.compat.lightning.utilities import exceptions, rank_zero
from drivetrain.compat.lightning.utilities import warnings as known_warnings

import drivetrain as dt
from drivetrain.compat import known_errors

known_errors.learn_kinds()

WRONG_USE = (dt.BuildError, dt.DataError, dt.EngineError, dt.LoggerError, dt.ModuleError, dt.TrainerError)


@pytest.mark.parametrize("kind", WRONG_USE)
def test_wrong_use_is_caught_by_either_name(kind):
    with pytest.raises(exceptions.MisconfigurationException, match=r"\[some\.code\] what") as found:
        raise kind("some.code", "what", values={"a": 1})
    assert isinstance(found.value, kind)
    assert type(found.value).__name__ == kind.__name__
    assert known_errors.known_kind(type(found.value), "some.code") is type(found.value)


@pytest.mark.parametrize("kind", [dt.CheckpointError, dt.CollectiveError, dt.CompatError, dt.LaunchError])
def test_what_is_nobodys_misuse_is_not(kind):
    assert not isinstance(kind("some.code", "what"), exceptions.MisconfigurationException)


def test_a_code_says_what_else_it_is():
    assert isinstance(dt.TrainerError("trainer.unknown-argument", ""), TypeError)
    assert isinstance(dt.ModuleError("module.no-trainer", ""), RuntimeError)
    assert isinstance(dt.CheckpointError("checkpoint.no-weights", ""), RuntimeError)
    assert isinstance(dt.SpikeError("callback.spike", ""), known_errors.TrainingSpikeException)


def test_errors_travel_as_ours_and_arrive_as_both():
    error = dt.TrainerError("trainer.unknown-argument", "what", values={"a": 1}, because="b", hint="c")
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own
    assert (str(again), again.values, type(again)) == (str(error), {"a": 1}, type(error))
    with pytest.raises(dt.PlanError) as found:
        dt.plan(accelerator="abacus")
    again = pickle.loads(pickle.dumps(found.value))  # noqa: S301 - our own
    assert isinstance(again, exceptions.MisconfigurationException)
    assert again.conflicts == found.value.conflicts


def test_users_raise_it_with_a_text():
    with pytest.raises(exceptions.MisconfigurationException, match=r"^mine$"):
        raise exceptions.MisconfigurationException("mine")


def test_warnings_are_filtered_by_the_known_categories():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", category=known_warnings.PossibleUserWarning)
        warnings.warn("ours", dt.DrivetrainWarning, stacklevel=1)
    with pytest.warns(rank_zero.LightningDeprecationWarning):
        dt.plan(accelerator="gpu", gpus=1, machine=dt.Machine(cuda=1))
