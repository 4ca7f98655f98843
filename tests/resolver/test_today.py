"""The call that a warning prints resolves to the plan that the old call resolved to."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import pytest

import drivetrain as dt
from drivetrain.resolver.catalogue import shipped
from drivetrain.resolver.today import flat, spelt_today

MACHINES = (dt.Machine(cuda=8), dt.Machine(), dt.Machine(tpu=8, cuda=8), dt.Machine(ipu=4), dt.Machine(mps=1))
DEVICES: tuple[dict[str, Any], ...] = (
    {},
    {"gpus": 0},
    {"gpus": 2},
    {"gpus": [1]},
    {"num_processes": 1},
    {"num_processes": 2},
    {"tpu_cores": 8},
    {"tpu_cores": [3]},
    {"ipus": 2},
    {"gpus": 2, "num_processes": 1},
)
WITH_PARTS = dt.DDPStrategy(precision="bf16-mixed", checkpoint_io=dt.LocalCheckpointIO(), static_graph=True)
HOW: tuple[dict[str, Any], ...] = (
    {},
    *(
        {door: value}
        for door in ("distributed_backend", "accelerator")
        for value in ("ddp", "ddp_spawn", "ddp_cpu")
    ),
    *(
        {"plugins": value}
        for value in ("ddp_sharded", WITH_PARTS, ["ddp_spawn", dt.MixedPrecision("bf16-mixed")])
    ),
    {"plugins": [dt.SingleStrategy(devices=[0]), dt.LocalCheckpointIO()]},
    {"accelerator": dt.StrategySpec("ddp_spawn", timeout_s=5.0, precision="bf16-mixed")},
    {"distributed_backend": dt.DDPStrategy(checkpoint_io="sharded") + dt.TPStrategy(size=2, precision=16)},
    {"strategy": WITH_PARTS},
    {"strategy": "ddp_spawn", "plugins": [dt.PrecisionFacts("bf16-mixed")]},
    {"strategy": "single_tpu"},
    {"accelerator": "auto", "strategy": "auto", "devices": "auto"},
    {"accelerator": "gpu"},
    {"accelerator": "cuda"},
    {"accelerator": "cpu"},
    {"accelerator": "tpu"},
    {"accelerator": dt.AcceleratorFacts("ipu")},
)
BESIDE: tuple[dict[str, Any], ...] = (
    {},
    {"precision": "64-true", "amp_backend": "Native"},
    {"checkpoint_callback": True, "sync_batchnorm": True, "weights_summary": "top"},
)


def test_the_printed_call_gives_the_same_plan_for_every_combination_that_resolves() -> None:
    resolved = 0
    for machine, *parts in itertools.product(MACHINES, DEVICES, HOW, BESIDE):
        flags = {name: value for part in parts for name, value in part.items()}
        if len(flags) < sum(map(len, parts)):
            continue
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", dt.DrivetrainDeprecationWarning)
            try:
                plan = dt.plan(machine=machine, **flags)
            except dt.PlanError:
                continue
        for warning in caught:
            call = str(warning.message).partition("; write ")[2].partition("\n")[0]
            scope = {"dt": dt, "plan": lambda **today: today, "Trainer": lambda **_: True}
            today = eval(call.partition(" and ")[0], scope)  # noqa: S307 - the call that we printed ourselves
            assert isinstance(eval(call, scope), (dict, bool))  # noqa: S307 - as above
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                again = dt.plan(machine=machine, **today)
            assert again == plan, (flags, call, plan.diff(again))
            resolved += 1
    assert resolved > 500


@pytest.mark.parametrize(
    ("strategy", "today"),
    [
        ("ddp", {"strategy": "ddp"}),
        ("ddp_spawn", {"strategy": "ddp", "launcher": "spawn"}),
        ("ddp_cpu(static_graph=true)", {"strategy": "ddp(static_graph=true)", "accelerator": "cpu"}),
        ("no such(", {"strategy": "no such("}),
        (5, {"strategy": 5}),
    ],
)
def test_a_strategy_is_spelt_with_todays_flags(strategy: object, today: dict) -> None:
    assert flat(spelt_today(strategy, shipped()), shipped()) == today


def test_shipped_plugins_become_flags_and_a_users_own_stay_objects() -> None:
    mine = dt.CheckpointIOFacts("local")
    catalogue = shipped()
    plugins = [catalogue.precisions["16-mixed"], catalogue.layer_syncs["batchnorm"], mine]
    assert flat({"plugins": plugins}, catalogue) == {
        "precision": "16-mixed",
        "plugins": [mine],
        "sync_batchnorm": True,
    }
