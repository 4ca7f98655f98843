from __future__ import annotations

import torch

from drivetrain.collectives.single import SingleCollectives
from drivetrain.loops.pulse import Pulse


def test_one_rank_always_agrees_with_itself_and_tells_less_often_when_steps_are_short() -> None:
    pulse = Pulse(SingleCollectives(), torch.device("cpu"))
    found = [pulse.step(("a",), 7, 15) for _ in range(1000)]
    assert found == [None] * 1000
    assert pulse._every > 1
    assert pulse.signal == 15
    assert pulse.finish(15) is None
    assert pulse.read() is None
    assert pulse._history == []


def test_a_time_that_is_over_is_heard_once_when_it_is_told_again() -> None:
    pulse = Pulse(SingleCollectives(), torch.device("cpu"))
    pulse.step((), 0, 0, lambda: True)
    assert not pulse.take_alarm()
    pulse.finish(0)
    assert pulse.take_alarm()
    assert not pulse.take_alarm()
