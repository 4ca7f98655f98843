from __future__ import annotations

import torch

import drivetrain as dt
from drivetrain.compat.boring import BoringModel
from drivetrain.compat.strategy_view import StrategyView
from tests.loops.models import quiet


def test_a_strategy_has_the_methods_that_users_call():
    asked = []

    class Asks(BoringModel):
        def on_train_start(self):
            view = StrategyView(self.trainer.strategy, self.trainer)
            view.barrier("name")
            asked.append((view.root_device, view.world_size, view.global_rank, view.local_rank))
            asked.append((view.is_global_zero, view.model is self, view.broadcast({"a": 1})))
            asked.append((float(view.reduce(torch.tensor(2.0), reduce_op="avg")), view.reduce("text")))
            asked.append(isinstance(view, dt.Strategy))
            asked.append(view.precision is self.trainer.strategy.precision)

    quiet(max_steps=1).fit(Asks())
    device = torch.device("cpu")
    assert asked == [(device, 1, 0, 0), (True, True, {"a": 1}), (2.0, "text"), True, True]
