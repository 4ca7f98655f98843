from __future__ import annotations

import pytest

import drivetrain as dt


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ({"name": "ddp"}, "ddp"),
        ({"name": "ddp", "static_graph": True}, "ddp(static_graph=true)"),
        ({"name": "ddp(bucket_cap_mb=5)", "static_graph": True}, "ddp(static_graph=true, bucket_cap_mb=5)"),
        ({"name": "tp+fsdp", "tp": {"size": 2}}, "fsdp+tp(size=2)"),
    ],
)
def test_a_mapping_equals_its_text(said: dict, text: str) -> None:
    there = dt.Machine(cuda=4)
    by_mapping = dt.plan(strategy=said, devices=4, machine=there)
    assert by_mapping.strategy == dt.plan(strategy=text, devices=4, machine=there).strategy


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({}, "has no name"),
        ({"name": 3}, "has no name"),
        ({"name": "fsdp+tp", "size": 2}, "'size'"),
        ({"name": "fsdp+tp", "tp": 2}, "'tp'"),
        ({"name": "ddp", "nothing": 1}, "cannot take nothing=1"),
        ({"name": "ddp(bucket_cap_mb=5)", "bucket_cap_mb": 6}, "says bucket_cap_mb twice"),
        ({"name": "nosuch"}, "'nosuch' is not known"),
    ],
)
def test_a_mapping_that_says_no_strategy_is_an_error(said: dict, told: str) -> None:
    with pytest.raises(dt.PlanError, match=told):
        dt.plan(strategy=said, devices=4, machine=dt.Machine(cuda=4))
