from __future__ import annotations

import warnings
from datetime import timedelta

import pytest
import torch

import drivetrain as dt
from drivetrain.compat.boring import BoringModel
from drivetrain.compat.lightning import Trainer, strategies
from drivetrain.resolver.old_classes import SAME_NAMES


@pytest.mark.parametrize(
    ("given", "named", "text", "parts"),
    [
        ((), {"timeout": timedelta(minutes=2)}, "ddp(timeout_s=120.0)", {}),
        ((), {"find_unused_parameters": True, "static_graph": False}, None, {}),
        ((), {"parallel_devices": [torch.device("cpu")] * 3}, "ddp", {"accelerator": "cpu", "devices": 3}),
        (("cpu", None, "none"), {}, "ddp", {"accelerator": "cpu", "environment": "none"}),
        ((), {"precision_plugin": "bf16-mixed"}, "ddp", {"precision": "bf16-mixed"}),
        ((), {"start_method": "spawn"}, "ddp", {"launcher": "spawn"}),
        ((), {"start_method": "popen"}, "ddp", {"launcher": "subprocess"}),
        ((), {"ddp_comm_hook": None, "model_averaging_period": None}, "ddp", {}),
    ],
)
def test_lightnings_arguments_say_what_they_said(given: tuple, named: dict, text: str | None, parts: dict):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        spec = strategies.DDPStrategy(*given, **named)
    assert spec == dt.StrategySpec.of((("ddp", named),)) if text is None else str(spec) == text
    assert dict(spec.parts) == parts


@pytest.mark.parametrize(
    ("named", "code"),
    [
        ({"start_method": "thread"}, "plan.legacy-value"),
        ({"timeout": 5}, "plan.legacy-value"),
        ({"no_such": 1}, "plan.strategy-option"),
    ],
)
def test_what_cannot_be_kept_is_refused(named: dict, code: str):
    with pytest.raises(dt.PlanError, match=code):
        strategies.DDPStrategy(**named)


def test_each_class_makes_a_strategy_that_is_known_by_it():
    for name in SAME_NAMES:
        kind = getattr(strategies, name)
        assert isinstance(kind(), kind)
        assert not isinstance(kind(), strategies.SingleDeviceStrategy)
        assert not isinstance(name, kind)
    assert isinstance(dt.HSDPStrategy(), strategies.FSDPStrategy)
    assert isinstance(dt.FSDPStrategy() + dt.TPStrategy(size=2), strategies.ModelParallelStrategy)


def test_isinstance_knows_the_strategy_of_a_run():
    seen = []

    class Asks(BoringModel):
        def on_train_start(self):
            seen.extend(
                isinstance(self.trainer.strategy, kind)
                for kind in (
                    strategies.DDPStrategy,
                    strategies.ParallelStrategy,
                    strategies.SingleDeviceStrategy,
                    strategies.FSDPStrategy,
                    strategies.Strategy,
                )
            )

    wanted = strategies.DDPStrategy(timeout=timedelta(seconds=90), start_method="fork")
    alike = {"max_steps": 1, "logger": False, "enable_progress_bar": False, "enable_checkpointing": False}
    Trainer(accelerator="cpu", devices=2, strategy=wanted, enable_model_summary=False, **alike).fit(Asks())
    assert seen == [True, True, False, False, True]
    seen.clear()
    Trainer(accelerator="cpu", devices=1, enable_model_summary=False, **alike).fit(Asks())
    assert seen == [False, False, True, False, True]


def test_a_subclass_whose_methods_nobody_would_call_is_refused():
    with pytest.raises(dt.CompatError, match=r"compat.absent[\s\S]*dt.Strategy"):

        class Mine(strategies.DDPStrategy):
            pass
