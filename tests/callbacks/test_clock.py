from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from drivetrain.callbacks import clock
from drivetrain.callbacks.clock import SharedClock


class Ranks:
    """Two ranks in one process: what rank 0 broadcasts is what rank 1 gets."""

    def __init__(self) -> None:
        self.sent: list[torch.Tensor] = []
        self.strategy = SimpleNamespace(device=torch.device("cpu"))
        self.world_size, self.is_global_zero = 2, True
        self.collectives = self

    def broadcast(self, told: torch.Tensor) -> torch.Tensor:
        if self.is_global_zero:
            self.sent.append(told.clone())
            return told
        return self.sent.pop(0)


@pytest.mark.parametrize("step_s", [0.01, 0.3, 40.0])
def test_ranks_agree_on_the_step_and_seldom_talk(monkeypatch, step_s: float) -> None:
    now = [0.0]
    monkeypatch.setattr(clock, "time", type("T", (), {"monotonic": lambda: now[0]}))
    ranks, clocks = Ranks(), (SharedClock(120.0), SharedClock(120.0))
    for one in clocks:
        one.restart()
    over: list[tuple[int, float]] = []
    num_steps, talks = max(20, int(300 / step_s)), 0
    for number in range(num_steps):
        now[0] += step_s
        ranks.is_global_zero = True
        said = clocks[0].is_over(ranks)
        talks += len(ranks.sent)
        ranks.is_global_zero = False
        assert clocks[1].is_over(ranks) is said
        assert not ranks.sent
        if said:
            over.append((number, now[0]))
    first, second = over[:2]
    assert 120.0 <= first[1] <= 120.0 + 2 * step_s
    assert 120.0 <= second[1] - first[1] <= 120.0 + 2 * step_s
    assert talks <= max(num_steps if step_s > 5 else 0, 300 / 5 * 2 + 40)


def test_steps_that_become_slow_delay_by_some_seconds_worth_only(monkeypatch) -> None:
    now = [0.0]
    monkeypatch.setattr(clock, "time", type("T", (), {"monotonic": lambda: now[0]}))
    ranks, one = Ranks(), SharedClock(600.0)
    one.restart()
    for number in range(100_000):
        now[0] += 0.001 if number < 5000 else 0.01
        if one.is_over(ranks):
            break
    assert 600.0 <= now[0] <= 600.0 + 10 * 5.0
