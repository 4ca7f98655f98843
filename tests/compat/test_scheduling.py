from __future__ import annotations

import pytest

import drivetrain as dt
from drivetrain.compat.scheduling import GradientAccumulationScheduler
from tests.loops.models import Regression, loader, quiet


def test_from_an_epoch_on_a_step_takes_more():
    schedule = GradientAccumulationScheduler({1: 2, 2: 5})
    assert schedule.going_to_accumulate_grad_batches()
    trainer = quiet(max_epochs=3, callbacks=[schedule])
    assert trainer.fit(Regression(), loader(40)).steps == 10 + 5 + 2


@pytest.mark.parametrize("wrong", [{}, 3, {0: 0}, {-1: 2}, {0.5: 2}])
def test_what_is_no_schedule_is_refused(wrong):
    with pytest.raises(dt.ModuleError, match=r"callback\.bad-argument"):
        GradientAccumulationScheduler(wrong)
