"""What a strategy's spelling says of other flags, in a text, in a composition and in an object."""

from __future__ import annotations

import pytest

import drivetrain as dt
from drivetrain.resolver.aliases import ALIASES
from drivetrain.resolver.catalogue import shipped
from drivetrain.resolver.swallowed import is_auto, spell

GPUS = dt.Machine(cuda=8)
LAUNCHING = [name for name, alias in ALIASES.items() if alias.launcher]
PLACING = [name for name, alias in ALIASES.items() if alias.accelerator]
EVERYTHING = dt.Machine(cuda=8, tpu=8, hpu=8, ipu=4)


@pytest.mark.parametrize("name", LAUNCHING)
def test_a_launcher_is_kept_however_the_name_is_written(name: str) -> None:
    ways = [name, f"{name}()", f" {name.upper()} ( ) ", f"{name}+tp(size=2)", f"tp(size=2) + {name}"]
    ways += [f"{name}(timeout_s=5)"]
    objects = [dt.StrategySpec(name), dt.StrategySpec(name, timeout_s=5), dt.StrategySpec(f" {name}")]
    objects += [dt.StrategySpec(name) + dt.TPStrategy(size=2)]
    for way in (*ways, *objects):
        plan = dt.plan(strategy=way, machine=GPUS)
        assert (plan.launcher, plan.world_size) == (ALIASES[name].launcher, 8), way
        told = dt.plan(machine=dt.Machine(cuda=8, variables={"DRIVETRAIN_STRATEGY": str(way)}))
        assert told == plan


@pytest.mark.parametrize("name", PLACING)
def test_an_accelerator_is_kept_however_the_name_is_written(name: str) -> None:
    alias = ALIASES[name]
    for way in (name, f"{name}()", dt.StrategySpec(name), dt.StrategySpec(name, precision="32-true")):
        assert dt.plan(strategy=way, devices=1, machine=EVERYTHING).accelerator == alias.accelerator, way
        other = "cuda" if alias.accelerator == "cpu" else "cpu"
        with pytest.raises(dt.PlanError) as raised:
            dt.plan(strategy=way, devices=1, accelerator=other, machine=EVERYTHING)
        assert "plan.said-twice" in {conflict.code for conflict in raised.value.conflicts}


def test_options_do_not_hide_a_launcher_that_contradicts() -> None:
    for way in ("ddp_spawn(timeout_s=5)", dt.StrategySpec("ddp_spawn", timeout_s=5)):
        with pytest.raises(dt.PlanError, match="launcher is said twice") as raised:
            dt.plan(strategy=way, launcher="fork", machine=GPUS)
        assert set(raised.value.conflicts[0].flags) == {"strategy", "launcher"}
    with pytest.raises(dt.PlanError, match="launcher is said twice"):
        dt.plan(strategy="ddp_spawn+ddp_fork", machine=GPUS)


def test_a_text_and_its_object_resolve_equally() -> None:
    for name in ALIASES:
        text, thing = (
            dt.plan(strategy=way, devices=1, machine=EVERYTHING) for way in (name, dt.StrategySpec(name))
        )
        assert text == thing


def test_an_object_named_like_a_composition_is_one() -> None:
    found = []
    for way in ("ddp_spawn + pp", dt.StrategySpec("ddp_spawn + pp")):
        with pytest.raises(dt.PlanError) as raised:
            dt.plan(strategy=way, machine=GPUS)
        (conflict,) = raised.value.conflicts
        found.append((conflict.code, list(map(dict, conflict.fixes))))
    assert found == [("plan.layout-open", [{"strategy": "pp(size=2)+ddp", "launcher": "spawn"}])] * 2


@pytest.mark.parametrize("door", ["accelerator", "plugins", "distributed_backend"])
def test_an_old_door_takes_a_name_with_options(door: str) -> None:
    with pytest.warns(dt.DrivetrainDeprecationWarning, match='launcher="spawn"'):
        plan = dt.plan(machine=GPUS, **{door: " DDP_spawn (timeout_s=5) + tp(size=2)"})
    assert (str(plan.strategy), plan.launcher) == ("ddp(timeout_s=5)+tp(size=2)", "spawn")


def test_auto_is_auto_as_a_text_and_as_an_object() -> None:
    for way in ("auto", " AUTO ", "auto()", dt.StrategySpec("auto")):
        assert is_auto(way)
        assert dt.plan(strategy=way, machine=GPUS) == dt.plan(machine=GPUS)
        told = dt.Machine(cuda=8, variables={"DRIVETRAIN_STRATEGY": "fsdp"})
        assert dt.plan(strategy=way, machine=told).strategy.name == "ddp"
    assert (
        dt.plan(strategy=dt.StrategySpec("auto", precision="16-mixed"), machine=GPUS).precision == "16-mixed"
    )
    assert not is_auto("auto(a=1)")
    with pytest.raises(dt.PlanError, match="strategy 'auto' is not known"):
        dt.plan(strategy="auto(a=1)", machine=GPUS)


@pytest.mark.parametrize(
    ("text", "ways_out"),
    [
        ("deepspeed_stage_3(stage=2)", ["deepspeed(stage=2)", "deepspeed(stage=3)"]),
        (
            "ddp_find_unused_parameters_true(find_unused_parameters=false)",
            ["ddp(find_unused_parameters=false)", "ddp(find_unused_parameters=true)"],
        ),
        (
            "fsdp_cpu_offload(cpu_offload=false)+tp(size=2)",
            ["fsdp(cpu_offload=false)+tp(size=2)", "fsdp(cpu_offload=true)+tp(size=2)"],
        ),
    ],
)
def test_an_option_that_the_name_says_is_not_said_again(text: str, ways_out: list[str]) -> None:
    told = dt.Machine(cuda=8, variables={"DRIVETRAIN_STRATEGY": text})
    for machine, flags in ((GPUS, {"strategy": text}), (told, {})):
        with pytest.raises(dt.PlanError) as raised:
            dt.plan(machine=machine, **flags)
        (conflict,) = raised.value.conflicts
        assert conflict.code == "plan.said-twice"
        assert [fix["strategy"] for fix in conflict.fixes] == ways_out


def test_the_way_out_of_an_option_said_twice_keeps_the_launcher() -> None:
    with pytest.raises(dt.PlanError) as raised:
        dt.plan(strategy="ddp_spawn_find_unused_parameters_true(find_unused_parameters=false)", machine=GPUS)
    (conflict,) = raised.value.conflicts
    assert dict(conflict.fixes[0]) == {"strategy": "ddp(find_unused_parameters=false)", "launcher": "spawn"}


def test_names_that_are_no_aliases_say_nothing() -> None:
    for value in ("ddp", "dp", "ddp(", 5, None, dt.StrategySpec("no")):
        assert spell(value, shipped().strategies).held == ()
