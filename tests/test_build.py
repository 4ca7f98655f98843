from __future__ import annotations

from dataclasses import replace

import pytest

import drivetrain as dt
from drivetrain.build import build_launcher, build_strategy, check, ranks_here
from drivetrain.collectives.place import Place
from drivetrain.resolver.catalogue import in_force
from drivetrain.resolver.ranks import Ranks
from drivetrain.strategies.ddp import DDPRuntime

MACHINE = dt.Machine()


def test_every_runtime_that_facts_name_is_there_and_of_its_kind() -> None:
    catalogue = in_force()
    for group in ("accelerators", "strategies", "precisions", "launchers", "environments", "checkpoint_ios"):
        for facts in getattr(catalogue, group).values():
            if facts.runtime:
                module, _, name = facts.runtime.partition(":")
                assert hasattr(pytest.importorskip(module), name)


@pytest.mark.parametrize("launcher", ["none", "subprocess", "spawn"])
def test_a_launcher_is_made_from_its_name(launcher: str) -> None:
    devices = 1 if launcher == "none" else 2
    plan = dt.plan(devices=devices, strategy="ddp(timeout_s=60)", launcher=launcher, machine=MACHINE)
    assert build_launcher(plan, in_force(), {}).facts.name == launcher


def test_a_strategy_owns_what_the_plan_says() -> None:
    plan = dt.plan(devices=2, strategy="ddp(static_graph=true)", precision="64-true", machine=MACHINE)
    strategy = build_strategy(plan, in_force(), {}, Place(Ranks(1, 1, 0, 2, 2, 1)))
    assert isinstance(strategy, DDPRuntime)
    assert strategy.options == {"static_graph": True}
    assert strategy.layout["dp_replicate"] == 2
    assert strategy.precision.name == "64-true"
    assert ranks_here(plan, in_force(), {}).world_size == 2


def test_a_missing_package_is_named_with_its_install_line() -> None:
    catalogue = in_force()
    facts = replace(
        catalogue.strategies["deepspeed"], runtime="somewhere:Thing", packages=("no-such-package",)
    )
    catalogue = replace(catalogue, strategies={**catalogue.strategies, "deepspeed": facts})
    plan = dt.plan(accelerator="cpu", devices=2, strategy="deepspeed", machine=MACHINE)
    with pytest.raises(dt.BuildError, match=r"build.package-missing[\s\S]*pip install no-such-package"):
        check(plan, catalogue, {})
