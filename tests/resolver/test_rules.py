"""Each rule: one case that breaks it, and one beside it that just passes."""

from __future__ import annotations

import pytest

import drivetrain as dt
from drivetrain.resolver.rules import RULES
from tests.resolver.test_choose import SLURM, TORCHRUN

CPU = dt.Machine()
GPUS = dt.Machine(cuda=8)

CASES = [
    ("plan.accelerator-missing", CPU, {"accelerator": "cuda"}, GPUS, {"accelerator": "cuda"}),
    ("plan.accelerator-missing", CPU, {"accelerator": "gpu"}, dt.Machine(mps=1), {"accelerator": "gpu"}),
    ("plan.accelerator-missing", CPU, {"ipus": 1}, dt.Machine(ipu=1), {"accelerator": "ipu", "devices": 1}),
    ("plan.devices-missing", GPUS, {"devices": 9}, GPUS, {"devices": 8}),
    ("plan.devices-missing", GPUS, {"devices": [7, 8]}, GPUS, {"devices": [6, 7]}),
    (
        "plan.devices-missing",
        dt.Machine(mps=1),
        {"accelerator": "mps", "devices": 2},
        dt.Machine(mps=1),
        {"devices": 1},
    ),
    ("plan.devices-processes", CPU, {"devices": [0, 1]}, CPU, {"devices": 2}),
    ("plan.devices-processes", CPU, {"devices": -1}, CPU, {"devices": "auto"}),
    ("plan.devices-processes", CPU, {"devices": 4097}, CPU, {"devices": 4096}),
    ("plan.devices-whole", dt.Machine(tpu=8), {"devices": 2}, dt.Machine(tpu=8), {"devices": 8}),
    ("plan.devices-whole", dt.Machine(tpu=8), {"devices": [0, 1]}, dt.Machine(tpu=8), {"devices": [1]}),
    (
        "plan.strategy-accelerator",
        dt.Machine(mps=1),
        {"accelerator": "mps", "strategy": "ddp"},
        CPU,
        {"strategy": "ddp"},
    ),
    ("plan.strategy-accelerator", CPU, {"strategy": "xla"}, dt.Machine(tpu=8), {"strategy": "xla"}),
    (
        "plan.strategy-accelerator",
        dt.Machine(mps=1),
        {"accelerator": "gpu", "strategy": "ddp"},
        GPUS,
        {"accelerator": "gpu", "strategy": "ddp"},
    ),
    (
        "plan.process-group-backend",
        CPU,
        {"strategy": "ddp(process_group_backend=nccl)", "devices": 2},
        GPUS,
        {"strategy": "ddp(process_group_backend=nccl)", "devices": 2},
    ),
    (
        "plan.strategy-world",
        CPU,
        {"strategy": "single", "devices": 2},
        CPU,
        {"strategy": "single", "devices": 1},
    ),
    (
        "plan.strategy-world",
        CPU,
        {"strategy": "single", "num_nodes": 2},
        CPU,
        {"strategy": "ddp", "num_nodes": 2},
    ),
    ("plan.layout-size", GPUS, {"strategy": "fsdp+tp(size=3)"}, GPUS, {"strategy": "fsdp+tp(size=4)"}),
    ("plan.layout-size", GPUS, {"strategy": "tp(size=4)"}, GPUS, {"strategy": "tp(size=8)"}),
    ("plan.layout-size", GPUS, {"strategy": "hsdp(replicate=3)"}, GPUS, {"strategy": "hsdp(replicate=2)"}),
    ("plan.layout-open", GPUS, {"strategy": "fsdp+tp"}, GPUS, {"strategy": "fsdp+tp(size=8)"}),
    ("plan.layout-open", GPUS, {"strategy": "pp+tp"}, GPUS, {"strategy": "pp(size=2)+tp"}),
    ("plan.layer-sync", dt.Machine(tpu=8), {"sync_batchnorm": True}, GPUS, {"sync_batchnorm": True}),
    (
        "plan.precision-accelerator",
        dt.Machine(mps=1),
        {"precision": "64-true"},
        CPU,
        {"precision": "64-true"},
    ),
    (
        "plan.precision-accelerator",
        dt.Machine(tpu=8),
        {"precision": "16-mixed"},
        dt.Machine(tpu=8),
        {"precision": "bf16-true"},
    ),
    (
        "plan.precision-accelerator",
        CPU,
        {"precision": "transformer-engine"},
        GPUS,
        {"precision": "transformer-engine"},
    ),
    (
        "plan.precision-strategy",
        GPUS,
        {"precision": "fp8", "strategy": "horovod"},
        GPUS,
        {"precision": "fp8", "strategy": "fsdp"},
    ),
    (
        "plan.precision-strategy",
        GPUS,
        {"precision": 64, "strategy": "deepspeed"},
        GPUS,
        {"precision": 64, "strategy": "fsdp"},
    ),
    ("plan.environment-world", dt.Machine({}, SLURM), {"devices": 4}, dt.Machine({}, SLURM), {"devices": 2}),
    (
        "plan.environment-world",
        dt.Machine({}, SLURM),
        {"num_nodes": 1, "devices": 4},
        dt.Machine({}, SLURM),
        {"num_nodes": 2},
    ),
    (
        "plan.environment-world",
        dt.Machine({}, TORCHRUN),
        {"devices": 1},
        dt.Machine({}, TORCHRUN),
        {"devices": 2},
    ),
    (
        "plan.environment-variables",
        CPU,
        {"environment": "slurm"},
        dt.Machine({}, SLURM),
        {"environment": "slurm"},
    ),
    (
        "plan.environment-variables",
        dt.Machine({}, {**TORCHRUN, "RANK": "4"}),
        {},
        dt.Machine({}, {**TORCHRUN, "RANK": "3"}),
        {},
    ),
    (
        "plan.environment-variables",
        dt.Machine({}, {**TORCHRUN, "WORLD_SIZE": "x"}),
        {},
        dt.Machine({}, TORCHRUN),
        {},
    ),
    ("plan.environment-accelerator", CPU, {"environment": "xla"}, dt.Machine(tpu=8), {"environment": "xla"}),
    (
        "plan.environment-strategy",
        dt.Machine(tpu=8),
        {"environment": "none"},
        dt.Machine(tpu=8),
        {"environment": "auto"},
    ),
    ("plan.launcher-world", CPU, {"launcher": "none", "devices": 2}, CPU, {"launcher": "none"}),
    (
        "plan.launcher-environment",
        dt.Machine({}, TORCHRUN),
        {"launcher": "spawn"},
        dt.Machine({}, TORCHRUN),
        {"launcher": "external"},
    ),
    ("plan.launcher-environment", CPU, {"launcher": "external"}, CPU, {"launcher": "subprocess"}),
    (
        "plan.launcher-fork",
        dt.Machine(fork=False),
        {"launcher": "fork", "devices": 2},
        CPU,
        {"launcher": "fork", "devices": 2},
    ),
    (
        "plan.launcher-fork",
        dt.Machine(cuda=2, touched=["cuda"]),
        {"launcher": "fork"},
        dt.Machine(cuda=2),
        {"launcher": "fork"},
    ),
    (
        "plan.launcher-strategy",
        CPU,
        {"launcher": "xla", "devices": 2},
        dt.Machine(tpu=8),
        {"launcher": "xla"},
    ),
    (
        "plan.launcher-strategy",
        dt.Machine(tpu=8),
        {"launcher": "spawn"},
        dt.Machine(tpu=8),
        {"launcher": "auto"},
    ),
    ("plan.accelerator-value", CPU, {"accelerator": "CPU"}, CPU, {"accelerator": "cpu"}),
    ("plan.accelerator-value", CPU, {"accelerator": 3}, CPU, {"accelerator": None}),
    ("plan.devices-value", GPUS, {"devices": 0}, GPUS, {"devices": 1}),
    ("plan.devices-value", GPUS, {"devices": True}, GPUS, {"devices": 1}),
    ("plan.devices-value", GPUS, {"devices": 2.0}, GPUS, {"devices": 2}),
    ("plan.devices-value", GPUS, {"devices": []}, GPUS, {"devices": [0]}),
    ("plan.devices-value", GPUS, {"devices": [1, 1]}, GPUS, {"devices": [1]}),
    ("plan.devices-value", GPUS, {"devices": [[0]]}, GPUS, {"devices": (0,)}),
    ("plan.devices-value", GPUS, {"devices": "5-2"}, GPUS, {"devices": "2-5"}),
    ("plan.devices-value", GPUS, {"devices": -2}, GPUS, {"devices": -1}),
    ("plan.num-nodes-value", CPU, {"num_nodes": 0}, CPU, {"num_nodes": 1}),
    ("plan.strategy-value", CPU, {"strategy": "dp"}, CPU, {"strategy": "ddp"}),
    ("plan.strategy-value", CPU, {"strategy": "ddp2"}, CPU, {"strategy": "DDP"}),
    ("plan.strategy-value", CPU, {"strategy": "ddp(nope=1)"}, CPU, {"strategy": "ddp(static_graph=true)"}),
    ("plan.strategy-value", CPU, {"strategy": "ddp+fsdp"}, CPU, {"strategy": "ddp"}),
    ("plan.strategy-value", CPU, {"strategy": "zero1+tp(size=1)"}, CPU, {"strategy": "ddp+tp(size=1)"}),
    ("plan.strategy-value", CPU, {"strategy": "tp(size=1)+tp(size=1)"}, CPU, {"strategy": "tp(size=1)"}),
    ("plan.launcher-value", CPU, {"launcher": "popen"}, CPU, {"launcher": "subprocess"}),
    ("plan.environment-value", CPU, {"environment": "slrum"}, CPU, {"environment": "none"}),
    ("plan.precision-value", CPU, {"precision": 12}, CPU, {"precision": 32}),
    ("plan.precision-value", CPU, {"precision": True}, CPU, {"precision": "bf16"}),
    ("plan.sync-batchnorm-value", CPU, {"sync_batchnorm": "maybe"}, CPU, {"sync_batchnorm": "true"}),
    (
        "plan.wrong-object",
        CPU,
        {"accelerator": dt.PrecisionFacts("p")},
        CPU,
        {"precision": dt.PrecisionFacts("p")},
    ),
    ("plan.plugin-kind", CPU, {"plugins": "16-mixed"}, CPU, {"plugins": [dt.PrecisionFacts("16-mixed")]}),
    ("plan.plugin-kind", CPU, {"plugins": [object()]}, CPU, {"plugins": []}),
    ("plan.machine-value", {"cuda": 2}, {}, dt.Machine({"cuda": 2}), {}),
]


@pytest.mark.filterwarnings("ignore::drivetrain.DrivetrainDeprecationWarning")
@pytest.mark.parametrize(("code", "bad_machine", "bad", "good_machine", "good"), CASES)
def test_a_rule_refuses_what_breaks_it_and_nothing_beside(code, bad_machine, bad, good_machine, good) -> None:
    with pytest.raises(dt.PlanError) as raised:
        dt.plan(machine=bad_machine, **bad)
    found = [conflict for conflict in raised.value.conflicts if conflict.code == code]
    assert found, str(raised.value)
    assert found[0].because
    assert found[0].message in str(raised.value).splitlines()[0] or len(raised.value.conflicts) > 1
    dt.plan(machine=good_machine, **good)


def test_every_rule_is_broken_by_a_case() -> None:
    """The code of a rule stands at the beginning of its docstring."""
    codes = {rule.__doc__.partition(":")[0] for _, rule in RULES}
    assert codes - {case[0] for case in CASES} == set()


def test_all_conflicts_are_reported_together_and_one_change_repairs_them() -> None:
    with pytest.raises(dt.PlanError) as raised:
        dt.plan(machine=CPU, accelerator="CPU", devices=0, strategy="dpd", precision="12", num_nodes=-1)
    codes = [conflict.code for conflict in raised.value.conflicts]
    assert codes == [
        f"plan.{flag}-value" for flag in ("strategy", "precision", "accelerator", "num-nodes", "devices")
    ]
    fix = dict(raised.value.conflicts[0].fixes[0])
    assert fix == {
        "strategy": "ddp",
        "precision": "32-true",
        "accelerator": "cpu",
        "num_nodes": 1,
        "devices": 1,
    }


@pytest.mark.parametrize(
    "door",
    [
        {"strategy": dt.DDPStrategy(precision="bf16-mixed")},
        {"plugins": [dt.PrecisionFacts("bf16-mixed")]},
    ],
    ids=lambda door: next(iter(door)),
)
def test_a_precision_that_an_object_holds_too_is_said_twice(door: dict[str, object]) -> None:
    for said in ("16-mixed", "bf16-mixed"):  # a change of one of two that are equal would reach only that one
        with pytest.raises(dt.PlanError) as raised:
            dt.plan(machine=GPUS, devices=2, precision=said, **door)
        (conflict,) = raised.value.conflicts
        assert conflict.code == "plan.said-twice"
        assert {source.value for source in conflict.flags.values()} == {said, "bf16-mixed"}


def test_a_device_that_a_strategy_names_beside_the_flag_is_refused() -> None:
    with pytest.raises(dt.PlanError) as raised:
        dt.plan(machine=GPUS, accelerator="cpu", strategy=dt.SingleStrategy(accelerator="cuda"))
    (conflict,) = raised.value.conflicts
    assert conflict.code == "plan.said-twice"
    assert {source.value for source in conflict.flags.values()} == {"cpu", "cuda"}


def test_fewer_tasks_than_devices_are_an_error_that_names_both() -> None:
    one = dict.fromkeys(("SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID"), "0")
    machine = dt.Machine({}, {**SLURM, **one, "SLURM_NTASKS": "1", "SLURM_NNODES": "1"})
    with pytest.raises(dt.PlanError) as raised:
        dt.plan(machine=machine, devices=2)
    (conflict,) = raised.value.conflicts
    assert conflict.code == "plan.environment-world"
    assert conflict.message == "devices x num_nodes is 2 x 1 = 2 ranks, but SLURM started 1 on 1 node"
    assert conflict.flags["SLURM_NTASKS"].value == "1"
    assert {frozenset(fix) for fix in conflict.fixes} == {frozenset({"devices"}), frozenset({"environment"})}


def test_an_error_reads_as_the_design_says() -> None:
    with pytest.raises(dt.PlanError) as raised:
        dt.plan(strategy="deepspeed", accelerator="mps", machine=dt.Machine(mps=1))
    lines = str(raised.value).splitlines()
    assert lines[0] == "[plan.strategy-accelerator] strategy 'deepspeed' cannot run on accelerator 'mps'"
    assert lines[1].startswith(
        "  strategy    = 'deepspeed' from argument: plan(strategy='deepspeed'), test_rules.py:"
    )
    assert lines[2].startswith("  accelerator = 'mps' from argument: plan(accelerator='mps'), test_rules.py:")
    assert lines[3] == "  because 'deepspeed' runs on: hpu, cuda, xpu, cpu"
    assert lines[4] == "hint: pass accelerator='cpu'"
    assert lines[-1] == "docs: errors/plan.strategy-accelerator"


def test_a_hint_replaces_the_old_spelling_that_said_the_value() -> None:
    with pytest.raises(dt.PlanError) as raised:
        dt.plan(machine=GPUS, gpus=9)
    fix = dict(raised.value.conflicts[0].fixes[0])
    assert fix["devices"] == 8
    assert fix["accelerator"] == "gpu"
    assert "hint: pass devices=8, accelerator='gpu' and leave out gpus" in str(raised.value)
