"""Machine: frozen facts about one machine."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drivetrain.base.errors import PlanError
from drivetrain.machine.snapshot import Machine

counts = st.dictionaries(st.sampled_from(["cuda", "mps", "tpu", "npu"]), st.integers(0, 65_536))
machines = st.builds(
    Machine,
    counts,
    st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=3),
    notebook=st.booleans(),
    fork=st.booleans(),
    touched=st.sets(st.sampled_from(["cuda", "xpu"])),
    num_cpus=st.integers(1, 256),
    memory_bytes=st.just({"cuda": (2**34, 2**34)}),
    platform=st.sampled_from(["", "linux x86_64"]),
)
FACTS = ("devices", "variables", "notebook", "fork", "touched", "num_cpus", "memory_bytes", "platform")


def refused(**facts: Any) -> str:
    with pytest.raises(PlanError) as raised:
        Machine(**facts)
    assert raised.value.code == "machine.bad-value"
    return raised.value.message


def test_a_machine_by_hand_has_a_processor_and_nothing_else() -> None:
    machine = Machine()
    assert (dict(machine.devices), dict(machine.variables)) == ({}, {})
    assert (machine.notebook, machine.fork, machine.touched, machine.num_cpus) == (False, True, set(), 1)


def test_kinds_are_said_by_mapping_or_by_name() -> None:
    assert Machine(cuda=8) == Machine({"cuda": 8}) == Machine(devices={"cuda": 8})
    assert Machine({"tpu": 8}, cuda=1).count("tpu") == 8


def test_a_kind_that_is_not_listed_counts_zero() -> None:
    assert Machine(cuda=8).count("cuda") == 8
    assert Machine(cuda=8).count("mps") == 0


@pytest.mark.parametrize("count", [-1, 65_537, True, 2.0, "8", None])
def test_a_count_that_no_machine_has_is_refused(count: object) -> None:
    assert refused(cuda=count) == f"a machine cannot have devices={{'cuda': {count!r}}}"


def test_the_smallest_and_the_largest_count_are_allowed() -> None:
    machine = Machine(cuda=0, tpu=65_536)
    assert (machine.count("cuda"), machine.count("tpu")) == (0, 65_536)


@pytest.mark.parametrize("devices", [{1: 8}, [("cuda", 8)], 8, "cuda"])
def test_devices_that_are_no_mapping_of_kinds_are_refused(devices: object) -> None:
    assert "devices=" in refused(devices=devices)


@pytest.mark.parametrize("variables", [{"SLURM_NTASKS": 2}, {1: "2"}, ["A=1"]])
def test_variables_that_are_no_texts_are_refused(variables: object) -> None:
    assert "variables=" in refused(variables=variables)


def test_a_machine_keeps_copies_and_cannot_be_written_to() -> None:
    said = {"cuda": 8}
    machine: Any = Machine(said)
    said["cuda"] = 1
    assert machine.count("cuda") == 8
    with pytest.raises(TypeError):
        machine.devices["cuda"] = 1
    with pytest.raises(TypeError):
        machine.variables["A"] = "1"
    with pytest.raises(AttributeError):
        machine.notebook = True


def test_variables_may_be_secret_and_are_not_shown() -> None:
    assert "hush" not in repr(Machine(variables={"TOKEN": "hush"}))


@given(machines)
def test_a_machine_survives_pickling_and_copying_with_every_fact(machine: Machine) -> None:
    for again in (pickle.loads(pickle.dumps(machine)), copy.deepcopy(machine)):  # noqa: S301 - our own bytes
        assert again == machine
        assert hash(again) == hash(machine)
        assert [getattr(again, fact) for fact in FACTS] == [getattr(machine, fact) for fact in FACTS]


@given(machines, machines)
def test_machines_are_equal_when_every_fact_is(one: Machine, other: Machine) -> None:
    is_alike = all(getattr(one, fact) == getattr(other, fact) for fact in FACTS)
    assert (one == other) is is_alike
    assert hash(one) == hash(other) or not is_alike


@pytest.mark.parametrize(
    "difference",
    [
        {"devices": {"cuda": 1}},
        {"variables": {"A": "1"}},
        {"notebook": True},
        {"fork": False},
        {"touched": ["cuda"]},
        {"num_cpus": 2},
        {"memory_bytes": {"cpu": (1,)}},
        {"platform": "linux"},
    ],
)
def test_one_fact_makes_two_machines(difference: dict[str, Any]) -> None:
    assert Machine(**difference) != Machine()
    assert Machine(**difference) == Machine(**difference)


@given(machines, counts)
def test_other_devices_change_no_other_fact(machine: Machine, changed: dict[str, int]) -> None:
    again = machine.with_devices(changed)
    assert again.devices == {**machine.devices, **changed}
    assert [getattr(again, fact) for fact in FACTS[1:]] == [getattr(machine, fact) for fact in FACTS[1:]]


def test_a_kind_said_twice_is_refused() -> None:
    with pytest.raises(PlanError, match="devices says 2 already"):
        Machine({"cuda": 2}, cuda=4)


def test_one_touched_kind_may_stand_alone() -> None:
    assert Machine(touched="cuda").touched == {"cuda"}


@pytest.mark.parametrize(
    "given",
    [
        {"touched": 5},
        {"touched": [["a"]]},
        {"memory_bytes": 5},
        {"memory_bytes": {"cuda": 80}},
        {"notebook": "false"},
        {"fork": "no"},
        {"num_cpus": None},
        {"num_cpus": 0},
        {"platform": 3},
        {"gpu": 8},
        {"Cuda": 8},
        {"cpu": 4},
    ],
)
def test_a_machine_is_made_of_facts_of_the_right_kind(given) -> None:
    assert refused(**given).startswith("a machine cannot have")
