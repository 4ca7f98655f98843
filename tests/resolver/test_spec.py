"""A strategy as a value."""

from __future__ import annotations

import copy
import inspect
import pickle

import pytest

import drivetrain as dt


def test_a_spec_is_its_name_and_the_options_that_were_said() -> None:
    spec = dt.DDPStrategy(find_unused_parameters=True)
    assert (spec.name, dict(spec.options)) == ("ddp", {"find_unused_parameters": True})
    assert str(spec) == "ddp(find_unused_parameters=true)"
    assert spec == dt.StrategySpec("ddp", find_unused_parameters=True) != dt.DDPStrategy()
    assert hash(spec) == hash(dt.StrategySpec("ddp", find_unused_parameters=True))
    assert spec != "ddp"


def test_the_order_of_options_means_nothing() -> None:
    one = dt.DDPStrategy(static_graph=True, bucket_cap_mb=5)
    other = dt.DDPStrategy(bucket_cap_mb=5, static_graph=True)
    assert one == other


def test_plus_composes_and_options_are_found_by_member() -> None:
    both = dt.FSDPStrategy(cpu_offload=True) + dt.TPStrategy(size=2)
    assert both.name == "fsdp+tp"
    assert {name: dict(options) for name, options in both.options.items()} == {
        "fsdp": {"cpu_offload": True},
        "tp": {"size": 2},
    }
    with pytest.raises(TypeError):
        both + "tp"


def test_a_part_that_both_members_hold_is_said_twice() -> None:
    with pytest.raises(dt.PlanError) as raised:
        dt.DDPStrategy(precision="16-mixed", devices=2) + dt.TPStrategy(size=2, precision="bf16-mixed")
    (conflict,) = raised.value.conflicts
    assert conflict.code == "plan.said-twice"
    assert set(conflict.flags) == {"ddp", "tp(size=2)"}
    assert "ddp holds precision='16-mixed', tp(size=2) holds precision='bf16-mixed'" in conflict.message
    both = dt.DDPStrategy(devices=4) + dt.TPStrategy(size=2, precision="bf16-mixed")
    assert both.parts == {"devices": 4, "precision": "bf16-mixed"}


def test_nothing_can_be_written_into_a_spec() -> None:
    spec = dt.DDPStrategy(bucket_cap_mb=5)
    with pytest.raises(AttributeError, match="frozen"):
        spec.name = "fsdp"
    with pytest.raises(TypeError):
        spec.options["bucket_cap_mb"] = 7  # type: ignore[index]  # the point of the test


def test_a_spec_survives_pickle_and_copy_with_its_parts() -> None:
    spec = dt.DDPStrategy(static_graph=True, precision="bf16-mixed")
    for again in (pickle.loads(pickle.dumps(spec)), copy.deepcopy(spec)):  # noqa: S301 - our own bytes
        assert again == spec
        assert again.parts == {"precision": "bf16-mixed"}


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"find_unused": True}, "'ddp' has the options: find_unused_parameters"),
        ({"static_graph": 1}, "'static_graph' (the same parameters are used every step) is bool"),
        ({"bucket_cap_mb": 0}, "is int, at least 1"),
        ({"bucket_cap_mb": True}, "is int, at least 1"),
        ({"timeout_s": float("nan")}, "is float, at least 1"),
    ],
)
def test_a_wrong_option_is_refused_where_the_object_is_made(options: dict, text: str) -> None:
    with pytest.raises(dt.PlanError) as raised:
        dt.DDPStrategy(**options)
    assert raised.value.conflicts[0].code == "plan.strategy-option"
    assert text in str(raised.value)


def test_a_misspelt_option_offers_the_nearest() -> None:
    with pytest.raises(dt.PlanError) as raised:
        dt.plan(strategy="ddp(find_unused_parameter=true)", devices=2, machine=dt.Machine())
    assert dict(raised.value.conflicts[0].fixes[0]) == {"strategy": "ddp(find_unused_parameters=true)"}


@pytest.mark.parametrize(("flag", "value"), [("launcher", "fork"), ("accelerator", "cpu"), ("num_nodes", 2)])
def test_a_flag_that_is_no_option_is_offered_as_the_flag(flag: str, value: object) -> None:
    with pytest.raises(dt.PlanError) as raised:
        dt.plan(strategy=f"ddp(static_graph=true, {flag}={value})", devices=2, machine=dt.Machine())
    (conflict,) = raised.value.conflicts
    fix = dict(conflict.fixes[0])
    assert conflict.because == f"{flag} is a flag of its own"
    assert fix == {"strategy": "ddp(static_graph=true)", flag: value}
    assert f"hint: pass strategy='ddp(static_graph=true)', {flag}={value!r}" in str(raised.value)
    plan = dt.plan(devices=2, machine=dt.Machine(), **fix)
    assert getattr(plan, flag) == value


def test_an_object_names_a_flag_that_is_no_option_too() -> None:
    with pytest.raises(dt.PlanError, match=r"hint: pass strategy='ddp', launcher='fork'"):
        dt.DDPStrategy(launcher="fork")


def test_options_have_names() -> None:
    with pytest.raises(dt.PlanError) as raised:
        dt.SingleStrategy("cuda:0")
    assert raised.value.conflicts[0].code == "plan.strategy-option"
    assert "strategy 'single' takes its options by name, not 'cuda:0' by place" in str(raised.value)
    assert "hardware has flags: accelerator, devices" in str(raised.value)


def test_choices_are_listed() -> None:
    with pytest.raises(dt.PlanError, match="one of 0, 1, 2, 3"):
        dt.DeepSpeedStrategy(stage=4)
    assert (
        str(dt.DeepSpeedStrategy(stage=3, config={"a": [1, None]}))
        == 'deepspeed(config={"a": [1, null]}, stage=3)'
    )


def test_a_class_shows_its_options_to_editors() -> None:
    parameters = inspect.signature(dt.TPStrategy).parameters
    assert parameters["size"].default is None
    assert "precision" in parameters


def test_parts_decide_like_flags_and_say_that_an_object_holds_them() -> None:
    plan = dt.plan(strategy=dt.DDPStrategy(precision="bf16-mixed", devices=2), machine=dt.Machine())
    assert (plan.precision, plan.world_size) == ("bf16-mixed", 2)
    assert plan.sources["precision"].origin is dt.Origin.OBJECT


def test_a_name_that_is_no_text_is_refused_as_any_other_wrong_name() -> None:
    for wrong in (5, None, ["ddp"]):
        with pytest.raises(dt.PlanError, match=r"plan.strategy-value"):
            dt.plan(strategy=dt.StrategySpec(wrong), machine=dt.Machine())
