from __future__ import annotations

from typing import Any

import pytest
import torch

import drivetrain as dt
from tests.loops.models import Regression, loader, quiet


class Steps(dt.Callback):
    """Keeps how many steps each epoch took."""

    def __init__(self) -> None:
        self.counts: list[int] = []

    def on_train_epoch_end(self, trainer, module):
        self.counts.append(trainer.global_step - sum(self.counts))


def fit(*callbacks: dt.Callback, **given: Any) -> tuple[Regression, dt.Trainer, list[int]]:
    module, steps = Regression(), Steps()
    trainer = quiet(max_epochs=4, callbacks=[*callbacks, steps], **given)
    trainer.fit(module, loader(40))
    return module, trainer, steps.counts


def test_it_says_what_the_trainers_argument_says() -> None:
    module, trainer, counts = fit(dt.GradientAccumulationScheduler({1: 4, 3: 2}))
    other, plain, expected = fit(accumulate_grad_batches={1: 4, 3: 2})
    assert counts == expected == [10, 3, 3, 5]
    assert trainer.estimated_stepping_batches == plain.estimated_stepping_batches == 21
    for mine, theirs in zip(module.parameters(), other.parameters(), strict=True):
        assert torch.equal(mine, theirs)


def test_one_of_the_modules_own_counts_too() -> None:
    class Own(Regression):
        def configure_callbacks(self):
            return dt.GradientAccumulationScheduler({0: 5})

    trainer = quiet(max_epochs=1)
    assert trainer.fit(Own(), loader(40)).steps == 2
    assert trainer.fit(Regression(), loader(40)).steps == 10
    with pytest.raises(dt.TrainerError, match=r"trainer.argument-twice"):
        quiet(max_epochs=1, accumulate_grad_batches=2).fit(Own(), loader(40))


def test_its_questions() -> None:
    found = dt.GradientAccumulationScheduler({2: 4, 5: 1})
    assert [found.get_accumulate_grad_batches(epoch) for epoch in range(7)] == [1, 1, 4, 4, 4, 1, 1]
    assert found.going_to_accumulate_grad_batches()
    assert not dt.GradientAccumulationScheduler({2: 1}).going_to_accumulate_grad_batches()


@pytest.mark.parametrize("scheduling", [{}, 4, {-1: 2}, {0: 0}, {1.5: 2}, {0: "4"}, {True: 2}])
def test_other_arguments_are_refused(scheduling: Any) -> None:
    with pytest.raises(dt.ModuleError, match=r"callback.bad-argument.*GradientAccumulationScheduler"):
        dt.GradientAccumulationScheduler(scheduling)


def test_saying_it_twice_is_refused() -> None:
    one = dt.GradientAccumulationScheduler({0: 4})
    for given in ({"callbacks": [one], "accumulate_grad_batches": 2}, {"callbacks": [one, one]}):
        with pytest.raises(dt.TrainerError, match=r"trainer.argument-twice\] accumulation by a Gradient"):
            quiet(**given)
