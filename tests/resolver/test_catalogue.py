"""Facts of installed packages join ours through entry points, and no line of ours is edited."""

from __future__ import annotations

import json
import pathlib
import pickle
import subprocess
import sys

import pytest

import drivetrain as dt
from drivetrain.resolver.catalogue import Catalogue, counted, facts_of, shipped

PACKAGE = '''
import drivetrain as dt

chip = dt.AcceleratorFacts("fakechip", "a fake chip", preference=99, is_gpu=True, count=lambda: 4)

class RingStrategy(dt.NamedSpec):
    """A third party's strategy."""
    __slots__ = ()
    facts = dt.StrategyFacts(
        "ring", axes=("dp_replicate",), options={"hops": dt.Option(1, "hops", (int,), least=1)}
    )

class Int4:
    facts = dt.PrecisionFacts("int4-true", aliases=("int4",))

not_facts = 3
'''
ENTRY_POINTS = """
[drivetrain.accelerators]
fakechip = fakechip:chip
[drivetrain.strategies]
ring = fakechip:RingStrategy
wrong = fakechip:not_facts
lost = fakechip:nobody
[drivetrain.precisions]
int4 = fakechip:Int4
"""
ASK = """
import json, sys
import drivetrain as dt, fakechip
plan = dt.plan(strategy="ring(hops=2)", precision="int4")
same = dt.plan(strategy=fakechip.RingStrategy(hops=2), precision="int4-true")
try:
    dt.plan(strategy="lost")
except dt.PlanError as error:
    because = error.conflicts[0].because
print(json.dumps({**plan.to_dict(), "same": plan == same, "because": because}))
"""


def test_a_package_registers_hardware_strategy_and_precision(tmp_path: pathlib.Path) -> None:
    (tmp_path / "fakechip.py").write_text(PACKAGE)
    info = tmp_path / "fakechip-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: fakechip\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    source = pathlib.Path(dt.__file__).parents[1]
    path = f"import sys; sys.path[:0] = [{str(source)!r}, {str(tmp_path)!r}]\n"
    done = subprocess.run([sys.executable, "-c", path + ASK], capture_output=True, text=True, check=True)
    plan = json.loads(done.stdout)
    assert (plan["accelerator"], plan["num_devices"], plan["strategy"]) == ("fakechip", 4, "ring(hops=2)")
    assert plan["precision"] == "int4-true"
    assert plan["same"]
    assert plan["because"].startswith("fakechip:nobody fails to load: AttributeError")


def test_every_fact_names_known_parts() -> None:
    """A name in a restriction that nobody bears would restrict nothing, or everything."""
    catalogue = shipped()
    for facts in catalogue.strategies.values():
        assert (facts.accelerators or set()) <= set(catalogue.accelerators), facts.name
        assert (facts.precisions or set()) <= set(catalogue.precisions), facts.name
        assert (facts.launchers or set()) <= set(catalogue.launchers), facts.name
        assert (facts.environments or set()) <= set(catalogue.environments), facts.name
        assert facts.checkpoint_io in catalogue.checkpoint_ios, facts.name
    for accelerator in catalogue.accelerators.values():
        assert (accelerator.strategies or set()) <= set(catalogue.strategies), accelerator.name
        assert (accelerator.precisions or set()) <= set(catalogue.precisions), accelerator.name
        assert accelerator.default_strategy in catalogue.strategies
    for precision in catalogue.precisions.values():
        assert (precision.strategies or set()) <= set(catalogue.strategies), precision.name
        assert (precision.accelerators or set()) <= set(catalogue.accelerators), precision.name


def test_a_name_that_is_taken_stays_what_it_was() -> None:
    extended = shipped().extended([dt.PrecisionFacts("32-true", "mine"), dt.PrecisionFacts("9-true")])
    assert extended.precisions["32-true"] is shipped().precisions["32-true"]
    assert "9-true" in extended.precisions
    assert "9-true" not in shipped().precisions


def test_facts_are_found_on_an_object_or_are_it() -> None:
    facts = dt.PrecisionFacts("p")
    assert facts_of(facts) is facts
    assert facts_of(type("Thing", (), {"facts": facts})()) is facts
    assert facts_of(object()) is None


def test_a_users_object_decides_by_its_own_facts() -> None:
    """An object with a known name but other facts is judged by its own: here, it runs on CPU only."""
    mine = type("Mine", (), {"facts": dt.PrecisionFacts("bf16-mixed", accelerators=frozenset({"cpu"}))})()
    assert dt.plan(plugins=[mine], machine=dt.Machine()).precision == "bf16-mixed"
    with pytest.raises(dt.PlanError, match=r"plan\.precision-accelerator"):
        dt.plan(plugins=[mine], machine=dt.Machine(cuda=1))


@pytest.mark.parametrize("count", [lambda: 1 / 0, lambda: "x", lambda: -1])
def test_hardware_that_cannot_be_counted_is_not_there(count) -> None:
    facts = dt.AcceleratorFacts(name="broken", count=count)
    whole = dt.AcceleratorFacts(name="whole", count=lambda: 3)
    assert counted(Catalogue(accelerators={"broken": facts, "whole": whole})) == {"broken": 0, "whole": 3}


class Unbound:
    """Like a proxy that is bound to nothing: even its class cannot be asked for."""

    @property
    def __class__(self):
        raise RuntimeError("unbound")


class Nameless(type):
    @property
    def __name__(cls):
        raise RuntimeError("no name")


class Silent(metaclass=Nameless):
    def __repr__(self) -> str:
        raise ValueError("no text")


@pytest.mark.parametrize(
    "flag", ["accelerator", "devices", "strategy", "plugins", "gpus", "other", "machine"]
)
def test_objects_that_answer_nothing_are_refused_as_any_other(flag: str) -> None:
    for value in (Unbound(), Silent(), Silent, [Silent()]):
        with pytest.raises(dt.PlanError) as caught:
            dt.plan(**{"machine": dt.Machine(), flag: value})
        assert str(caught.value)


class Chip:
    facts = dt.AcceleratorFacts(name="chip", count=lambda: 3)


def test_hardware_of_ones_own_is_counted_by_itself() -> None:
    assert dt.plan(accelerator=Chip()).device_ids == (0, 1, 2)


def test_an_error_crosses_a_process_with_values_that_cannot() -> None:
    for value in (lambda: 1, (one for one in ()), pickle, memoryview(b"")):
        with pytest.raises(dt.PlanError) as caught:
            dt.plan(devices=value, machine=dt.Machine())
        again = pickle.loads(pickle.dumps(caught.value))  # noqa: S301 - our own bytes
        assert str(again) == str(caught.value)
