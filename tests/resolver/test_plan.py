"""Plan: frozen, comparable, diffable, written down and read back."""

from __future__ import annotations

import dataclasses
import json
import pickle

import pytest

import drivetrain as dt

GPUS = dt.Machine(cuda=8)


def test_plans_are_equal_when_they_decide_the_same() -> None:
    said, decided = dt.plan(strategy="ddp", machine=GPUS), dt.plan(machine=GPUS)
    assert said == decided
    assert hash(said) == hash(decided)
    assert said.sources["strategy"].origin is dt.Origin.ARGUMENT
    assert decided.sources["strategy"].origin is dt.Origin.DEFAULT


def test_diff_names_what_differs_from_here_to_there() -> None:
    one, other = dt.plan(devices=2, machine=GPUS), dt.plan(devices=2, precision="bf16-mixed", machine=GPUS)
    assert one.diff(other) == {"precision": ("32-true", "bf16-mixed")}
    assert one.diff(one) == {}


def test_a_plan_cannot_be_changed() -> None:
    plan = dt.plan(machine=GPUS)
    with pytest.raises(dataclasses.FrozenInstanceError):
        plan.precision = "64-true"  # type: ignore[misc]  # the point of the test
    with pytest.raises(TypeError):
        plan.layout["tp"] = 2  # type: ignore[index]  # the point of the test


def test_a_plan_survives_json_and_pickle_with_its_reasons() -> None:
    plan = dt.plan(strategy="fsdp+tp(size=2)", machine=GPUS)
    pickled = pickle.loads(pickle.dumps(plan))  # noqa: S301 - our own bytes
    for again in (dt.Plan.from_dict(json.loads(json.dumps(plan.to_dict()))), pickled):
        assert again == plan
        assert again.explain() == plan.explain()
        assert again.sources["strategy"] == plan.sources["strategy"]


@pytest.mark.parametrize(
    "broken",
    [
        {},
        {"accelerator": 1},
        {"layout": {}},
        {"strategy": "ddp("},
        {"device_ids": ["x"]},
        {"sources": {"devices": 1}},
    ],
)
def test_what_is_no_plan_is_refused(broken: dict) -> None:
    data = {**dt.plan(machine=GPUS).to_dict(), **broken} if broken else {}
    with pytest.raises(dt.PlanError, match="not a plan"):
        dt.Plan.from_dict(data)


def test_explain_says_value_origin_and_reason_of_each_flag() -> None:
    plan = dt.plan(devices=2, machine=GPUS)
    rows = {line.split()[0]: line for line in plan.explain().splitlines()}
    assert "2 (0,1)" in rows["devices"]
    assert "plan(devices=2), test_plan.py:" in rows["devices"]
    assert "8 cuda devices" in rows["accelerator"]
    assert "dp_replicate=2" in rows["layout"]


@pytest.mark.parametrize(
    "change",
    [
        {"num_nodes": float("inf")},
        {"num_nodes": 2.9},
        {"num_nodes": -1},
        {"num_nodes": "2"},
        {"device_ids": []},
        {"device_ids": ["01"]},
        {"device_ids": [True]},
        {"device_ids": [0.5]},
        {"device_ids": [-1, -1]},
        {"layout": {}},
        {"world_size": 7},
        {"num_devices": 7},
        {"other": 1},
        {"accelerator": None},
        {"sources": {"devices": {"value": 1, "origin": "argument", "reason": 5}}},
    ],
)
def test_only_what_to_dict_writes_is_read(change) -> None:
    written = dt.plan(strategy="ddp", devices=2, machine=dt.Machine(cuda=8)).to_dict()
    assert dt.Plan.from_dict(written).to_dict() == written
    with pytest.raises(dt.PlanError, match=r"plan.bad-dict"):
        dt.Plan.from_dict({**written, **change})
