from __future__ import annotations

from pathlib import Path

import pytest

from tests.loops.models import Regression, loader, quiet
from tests.loops.steps import (
    Adversarial,
    ByHand,
    Weighted,
    assert_close,
    batches_of,
    joined,
    train,
    train_adversarial,
)

pytestmark = pytest.mark.ranks


def test_accumulation_and_clipping_on_ranks_equal_one_process_on_the_joint_batch() -> None:
    module = Regression()
    trainer = quiet(devices=2, strategy="ddp", max_epochs=2, accumulate_grad_batches=2, gradient_clip_val=0.5)
    result = trainer.fit(module, loader(39))  # 10 batches: steps of 2 x 2, 2 x 2 and 2 x 1
    steps = joined(batches_of(39), 4)
    assert_close(module, train(Regression(), steps, clip=0.5, epochs=2))
    assert (result.steps, result.samples) == (6, 78)


def test_weights_are_summed_over_ranks_and_the_last_step_may_lack_a_batch() -> None:
    for factor in (1, 2):
        module = Weighted()
        quiet(devices=2, strategy="ddp", max_epochs=1, accumulate_grad_batches=factor).fit(module, loader(35))
        assert_close(module, train(Weighted(), joined(batches_of(35), 2 * factor)))


def test_several_backwards_a_step_are_averaged_each() -> None:
    joint = joined(batches_of(35), 2)
    module = Adversarial()
    quiet(devices=2, strategy="ddp", max_epochs=1, accumulate_grad_batches=2).fit(module, loader(35))
    assert_close(module, train_adversarial(Adversarial(), joint, 2, num_samples=35))
    by_hand = ByHand()
    result = quiet(devices=2, strategy="ddp", max_epochs=1).fit(by_hand, loader(35))
    assert_close(by_hand, train_adversarial(Adversarial(), joint, clip=0.5, num_samples=35))
    assert result.steps == 5


def test_a_run_goes_on_within_a_window_on_another_number_of_ranks(tmp_path: Path) -> None:
    from tests.loops.test_resume_within import SaveAt

    path, whole = tmp_path / "a.ckpt", Regression()
    settings = {"max_epochs": 1, "accumulate_grad_batches": 4}
    quiet(**settings, callbacks=[SaveAt(path, batches=2)]).fit(whole, loader(32))
    module = Regression()
    # Two batches of the window are taken, two are left: one of each rank.
    quiet(devices=2, strategy="ddp", max_epochs=1, accumulate_grad_batches=4).fit(
        module, loader(32), ckpt_path=path
    )
    expected = train(Regression(), [list(range(8)) + list(range(8, 24)), list(range(24, 32))], num_samples=32)
    assert_close(module, expected)
