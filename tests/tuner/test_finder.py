from __future__ import annotations

import gc
import os
import random
import signal
from typing import Any

import pytest
import torch

import drivetrain as dt
from drivetrain.base.where import HERE
from drivetrain.tuner.finder import aside
from tests.loops.models import Regression, loader, quiet
from tests.tuner.sized import Sized


def test_what_happens_aside_leaves_no_trace() -> None:
    seen: list[Any] = []

    class Looks(dt.Callback):
        def on_train_start(self, trainer: Any, module: Any) -> None:
            for fails in (False, True):
                before = (torch.get_rng_state(), random.getstate(), str(HERE))
                with torch.inference_mode():
                    try:
                        with aside(trainer.strategy) as folder:
                            (folder / "file").write_text("")
                            random.random()
                            torch.rand(1)
                            HERE.note(stage="trial")
                            assert torch.is_grad_enabled()
                            assert not torch.is_inference_mode_enabled()
                            _ = {False: 0}[fails]  # True is no key
                    except KeyError:
                        pass
                assert not folder.exists()
                assert torch.equal(torch.get_rng_state(), before[0])
                assert random.getstate() == before[1]
                # After a failure a report tells where it was.
                assert str(HERE) == ("stage trial" if fails else before[2])
                seen.append(fails)

    gc.unfreeze()
    quiet(max_steps=1, callbacks=Looks()).fit(Regression(), loader())
    assert seen == [False, True]
    assert gc.get_freeze_count() == 0


@pytest.mark.parametrize("kind", [dt.BatchSizeFinder, dt.LearningRateFinder])
def test_a_signal_within_a_search_is_the_run_s(kind: Any) -> None:
    caught: list[int] = []

    class Signalled(Sized):
        def on_train_batch_end(self, *_: Any) -> None:
            if not caught:
                signal.signal(signal.SIGUSR1, signal.SIG_DFL)
                signal.signal(signal.SIGUSR1, lambda number, _: caught.append(number))
                os.kill(os.getpid(), signal.SIGUSR1)

    before = signal.getsignal(signal.SIGUSR1)
    try:
        quiet(max_steps=1, callbacks=kind()).fit(Signalled({0: 10}))
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert caught == [signal.SIGUSR1]
