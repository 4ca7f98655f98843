from __future__ import annotations

import pytest

import drivetrain as dt
from drivetrain.tuner.places import assign, needed_places, places
from tests.loops.models import Regression


class Holds(Regression):
    @property
    def batch_size(self) -> int:
        return self.hparams.batch_size


def test_a_setting_is_set_wherever_it_stands() -> None:
    module, made = Holds(), dt.DataModule()
    module.hparams.batch_size = made.batch_size = 2
    found = places("batch_size", module, None, made)
    assert [id(one) for one in found] == [id(module.hparams), id(made)]  # not the property, which reads
    assign(found, "batch_size", 8)
    assert (module.batch_size, module.hparams["batch_size"], made.batch_size) == (8, 8, 8)


def test_a_setting_that_stands_nowhere_is_an_error_with_the_way_out() -> None:
    with pytest.raises(dt.TrainerError, match=r"Holds and DataModule has no size(.|\n)*self.size"):
        needed_places("size", "batch size", Holds(), dt.DataModule())
