from __future__ import annotations

import drivetrain as dt
from drivetrain.events import Dispatcher


class Mine(dt.Module):
    def on_fit_start(self):
        calls.append("module")

    def on_test_batch_start(self, batch, batch_idx):
        calls.append((batch, batch_idx))


class First(dt.Callback):
    def on_fit_start(self, trainer, module):
        calls.append(("first", trainer, type(module).__name__))


class Last(dt.Callback):
    is_last = True

    def on_fit_start(self, trainer, module):
        calls.append("last")

    def on_test_batch_start(self, trainer, module, batch, batch_idx, dataloader_idx=0):
        calls.append(("last", dataloader_idx))


calls: list = []


def test_callbacks_come_first_then_the_module_then_those_that_come_last() -> None:
    calls.clear()
    events = Dispatcher("trainer", Mine(), [Last(), First()])
    events("on_fit_start")
    assert calls == [("first", "trainer", "Mine"), "module", "last"]
    calls.clear()
    events.early("on_fit_start")
    assert len(calls) == 2
    events.last("on_fit_start")
    assert calls[-1] == "last"


class Decides(First):
    decides = True

    def on_fit_start(self, trainer, module):
        calls.append("decides")


def test_those_that_decide_come_after_the_module_and_before_those_that_save() -> None:
    calls.clear()
    events = Dispatcher("trainer", Mine(), [Last(), Decides(), First()])
    events("on_fit_start")
    assert calls == [("first", "trainer", "Mine"), "module", "decides", "last"]
    calls.clear()
    events.last("on_fit_start")
    assert calls == ["decides", "last"]


def test_what_nobody_overrides_means_no_call() -> None:
    assert Dispatcher("trainer", dt.Module(), [dt.Callback()]).calls("on_train_batch_end") == ()


def test_a_module_may_leave_the_loaders_number_out() -> None:
    calls.clear()
    Dispatcher("trainer", Mine(), [Last()])("on_test_batch_start", "batch", 3, 1)
    assert calls == [("batch", 3), ("last", 1)]
