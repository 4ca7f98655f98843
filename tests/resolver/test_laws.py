"""The laws of the resolver, over generated flags and machines."""

from __future__ import annotations

import ast
import copy
import json
import math
import warnings
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import drivetrain as dt
from drivetrain.base.origin import UNSET
from drivetrain.flags.calls import parse_calls
from drivetrain.flags.devices import parse_devices
from drivetrain.resolver.aliases import ALIASES, REFUSED
from drivetrain.resolver.catalogue import shipped
from drivetrain.resolver.collect import FLAGS
from drivetrain.resolver.legacy import LEGACY

TORCHRUN = {"RANK": "1", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2", "GROUP_RANK": "0"}
SLURM = {
    "SLURM_PROCID": "0",
    "SLURM_NTASKS": "4",
    "SLURM_LOCALID": "0",
    "SLURM_NODEID": "0",
    "SLURM_NNODES": "2",
}

machines = st.builds(
    dt.Machine,
    st.dictionaries(
        st.sampled_from(["cuda", "mps", "tpu", "xpu", "hpu", "ipu"]), st.integers(0, 9), max_size=3
    ),
    st.sampled_from(
        [{}, {}, TORCHRUN, SLURM, {"LOCAL_RANK": "0"}, {**TORCHRUN, "RANK": "x"}, {"DRIVETRAIN_DEVICES": "2"}]
    ),
    notebook=st.booleans(),
    fork=st.booleans(),
    touched=st.sampled_from([(), ("cuda",)]),
)
sizes = st.integers(1, 8)
DDP_ALIASES = [name for name, alias in ALIASES.items() if alias.name == "ddp"]
strategy_texts = st.one_of(
    st.sampled_from([*shipped().strategies, *ALIASES, "auto"]),
    st.builds("{}+tp(size={})".format, st.sampled_from(["ddp", "fsdp", "hsdp"]), sizes),
    st.builds("pp(size={})+fsdp".format, sizes),
    st.builds("fsdp+cp(size={})+tp(size={})".format, sizes, sizes),
    st.builds("deepspeed(stage={})".format, st.integers(0, 3)),
    st.builds("ddp(bucket_cap_mb={}, static_graph=true)".format, sizes),
    st.builds("{}(bucket_cap_mb={})".format, st.sampled_from([*DDP_ALIASES]), sizes),
    st.builds("{} + tp(size={})".format, st.sampled_from([*DDP_ALIASES]), sizes),
)
sensible = st.fixed_dictionaries(
    {},
    optional={
        "accelerator": st.sampled_from(["auto", "cpu", "gpu", "cuda", "mps", "tpu", "ipu", "hpu", "xpu"]),
        "devices": st.one_of(
            st.sampled_from(["auto", -1, "0,1", "1,", "0-3", [0, 2]]), sizes, sizes.map(str)
        ),
        "num_nodes": st.integers(1, 4),
        "strategy": strategy_texts,
        "launcher": st.sampled_from(["auto", *shipped().launchers]),
        "environment": st.sampled_from(["auto", *shipped().environments]),
        "precision": st.sampled_from([16, 32, 64, "bf16", *shipped().precisions]),
        "sync_batchnorm": st.booleans(),
    },
)


class Hostile:
    """An object whose every answer is an exception."""

    def __repr__(self) -> str:
        raise RuntimeError

    def __eq__(self, other: object) -> bool:
        raise RuntimeError

    __hash__ = None  # type: ignore[assignment]  # an object that cannot be hashed either

    def __index__(self) -> int:
        raise KeyError

    @property
    def facts(self) -> object:
        raise ValueError


LOOP: list[Any] = []
LOOP.append(LOOP)
# Hypothesis prints what it draws, so the values that cannot be printed are drawn by name.
UNPRINTABLE = {"<hostile>": Hostile(), "<huge>": 10**6000, "<loop>": LOOP}


def real(value: Any) -> Any:
    """Put the unprintable values in place of their names."""
    if isinstance(value, str):
        return UNPRINTABLE.get(value, value)
    if isinstance(value, list):
        return [real(item) for item in value]
    return value


scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=12),
    st.binary(max_size=3),
    st.sampled_from(
        [*UNPRINTABLE, object(), object, len, dt.DDPStrategy(), dt.StrategySpec("no"), dt.Plan, {1}]
    ),
    st.sampled_from([*ALIASES, *REFUSED, "ddp(", "a+b", "2-999999", "tp+pp", "dp", "\ud800"]),
)
anything = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
hostile = st.dictionaries(st.sampled_from([*FLAGS, *LEGACY, "device", "zzz"]), anything, max_size=4)


def ask(machine: dt.Machine, flags: dict[str, Any]) -> dt.Plan | dt.PlanError:
    """Resolve; return the plan or the error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dt.DrivetrainWarning)
        try:
            return dt.plan(machine=machine, **{flag: real(value) for flag, value in flags.items()})
        except dt.PlanError as error:
            return error


@settings(max_examples=400, deadline=None)
@given(machines, hostile)
def test_any_input_gives_a_plan_or_a_plan_error(machine: dt.Machine, flags: dict[str, Any]) -> None:
    """No other exception, whatever comes in, and the error can always be printed."""
    answer = ask(machine, flags)
    assert str(answer)


@settings(max_examples=400, deadline=None)
@given(machines, hostile | sensible)
def test_every_hint_that_is_shown_resolves(machine: dt.Machine, flags: dict[str, Any]) -> None:
    """A hint is a change of flags that works on this very machine."""
    answer = ask(machine, flags)
    for conflict in answer.conflicts if isinstance(answer, dt.PlanError) else ():
        for fix in conflict.fixes:
            changed = {name: value for name, value in {**flags, **fix}.items() if value is not UNSET}
            assert isinstance(ask(machine, changed), dt.Plan), (conflict.code, fix)


def keeps_devices(value: Any, plan: dt.Plan) -> bool:
    """Whether a plan has the devices asked for."""
    asked = parse_devices(value)
    if asked.indices:
        return plan.device_ids == asked.indices
    return asked.is_all or plan.num_devices == asked.count


def keeps_strategy(value: str, plan: dt.Plan) -> bool:
    """Whether a plan has the strategy asked for, in any order of a composition."""
    said = parse_calls(value)
    for name, _ in said:
        alias = ALIASES.get(name)
        if alias and alias.launcher not in (None, plan.launcher):
            return False
        if alias and alias.accelerator not in (None, plan.accelerator):
            return False
    today = {
        (ALIASES[name].name, str({**ALIASES[name].options, **options}))
        if name in ALIASES
        else (name, str(options))
        for name, options in said
    }
    return {(name, str(dict(options))) for name, options in plan.strategy.members} == {
        (name, str(dict(sorted(ast.literal_eval(options).items())))) for name, options in today
    }


def keeps(flag: str, value: Any, plan: dt.Plan) -> bool:
    """Whether a plan keeps what was said of a flag."""
    catalogue = shipped()
    checks = {
        "accelerator": lambda: (
            plan.accelerator == value or (value == "gpu" and catalogue.accelerators[plan.accelerator].is_gpu)
        ),
        "devices": lambda: keeps_devices(value, plan),
        "precision": lambda: plan.precision in (value, catalogue.precision_aliases.get(str(value))),
        "sync_batchnorm": lambda: plan.layer_sync == ("batchnorm" if value else "none"),
        "strategy": lambda: keeps_strategy(value, plan),
    }
    return value == "auto" or checks.get(flag, lambda: getattr(plan, flag) == value)()


@settings(max_examples=500, deadline=None)
@given(machines, sensible)
def test_what_was_said_is_kept_or_refused(machine: dt.Machine, flags: dict[str, Any]) -> None:
    """Nothing that the user said is ignored or changed."""
    answer = ask(machine, flags)
    if isinstance(answer, dt.Plan):
        kept = {flag: keeps(flag, value, answer) for flag, value in flags.items()}
        assert all(kept.values()), (kept, str(answer))


@settings(max_examples=300, deadline=None)
@given(machines, sensible)
def test_resolving_twice_gives_equal_answers_and_changes_nothing(
    machine: dt.Machine, flags: dict[str, Any]
) -> None:
    """The resolver is a pure function."""
    before = copy.deepcopy(flags), dict(machine.devices), dict(machine.variables)
    first, second = ask(machine, flags), ask(machine, flags)
    assert (flags, dict(machine.devices), dict(machine.variables)) == before
    if isinstance(first, dt.Plan):
        assert first == second
        assert first.diff(second) == {}  # type: ignore[arg-type]  # equal to first, so a plan
    else:
        assert str(first) == str(second)


@settings(max_examples=300, deadline=None)
@given(machines, sensible)
def test_a_plan_survives_json_and_its_mesh_is_the_world(machine: dt.Machine, flags: dict[str, Any]) -> None:
    """to_dict is JSON, from_dict reads it back, and each rank stands at one point of the mesh."""
    plan = ask(machine, flags)
    if isinstance(plan, dt.Plan):
        again = dt.Plan.from_dict(json.loads(json.dumps(plan.to_dict())))
        assert again == plan
        assert again.explain() == plan.explain()
        assert math.prod(plan.layout.values()) == plan.world_size == plan.num_devices * plan.num_nodes


@settings(max_examples=200, deadline=None)
@given(machines, sensible)
def test_an_environment_variable_decides_like_the_argument(
    machine: dt.Machine, flags: dict[str, Any]
) -> None:
    """DRIVETRAIN_<FLAG> says what the argument would say; only the origin differs."""
    texts = {
        flag: ",".join(map(str, value)) + "," if isinstance(value, list) else str(value)
        for flag, value in flags.items()
    }
    variables = {name: text for name, text in machine.variables.items() if not name.startswith("DRIVETRAIN_")}
    plain = dt.Machine(
        machine.devices, variables, notebook=machine.notebook, fork=machine.fork, touched=machine.touched
    )
    said = {f"DRIVETRAIN_{flag.upper()}": text for flag, text in texts.items()}
    told = dt.Machine(
        machine.devices,
        {**variables, **said},
        notebook=machine.notebook,
        fork=machine.fork,
        touched=machine.touched,
    )
    argued, varied = ask(plain, texts), ask(told, {})
    assert isinstance(argued, dt.Plan) == isinstance(varied, dt.Plan)
    if isinstance(argued, dt.Plan):
        assert argued == varied


@pytest.mark.parametrize("name", shipped().strategies)
def test_a_string_and_its_object_resolve_equally(name: str) -> None:
    """A name is only sugar for an object, in plans and in errors."""
    made = next(
        getattr(dt, public)
        for public in dt.__all__
        if public.endswith("Strategy")
        and getattr(getattr(dt, public), "facts", None) is shipped().strategies[name]
    )
    for machine in (dt.Machine(), dt.Machine(cuda=8), dt.Machine(tpu=8), dt.Machine(ipu=4)):
        text, thing = ask(machine, {"strategy": name}), ask(machine, {"strategy": made()})
        if isinstance(text, dt.Plan):
            assert text == thing
        else:
            assert [c.code for c in text.conflicts] == [c.code for c in thing.conflicts]  # type: ignore[union-attr]  # both are errors


def test_ddp_on_one_device_is_ddp() -> None:
    """devices=1, strategy="ddp" is ddp with a world of 1, not silently single."""
    plan = dt.plan(devices=1, strategy="ddp", machine=dt.Machine())
    assert (plan.strategy.name, plan.world_size, plan.launcher) == ("ddp", 1, "none")


def test_one_object_serves_two_trainers() -> None:
    """A strategy object is a value: no plan writes into it."""
    spec = dt.DDPStrategy(static_graph=True)
    first = dt.plan(devices=2, strategy=spec, machine=dt.Machine())
    second = dt.plan(devices=4, strategy=spec, machine=dt.Machine())
    assert (first.world_size, second.world_size) == (2, 4)
    assert str(spec) == "ddp(static_graph=true)"
