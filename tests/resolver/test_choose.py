"""What auto decides, and the reason that it gives."""

from __future__ import annotations

import pytest

import drivetrain as dt
from drivetrain.base.origin import Origin

TORCHRUN = {"RANK": "1", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2", "GROUP_RANK": "0"}
BY_HAND = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "MASTER_ADDR": "h", "MASTER_PORT": "1"}
SLURM = {
    "SLURM_PROCID": "0",
    "SLURM_NTASKS": "4",
    "SLURM_LOCALID": "0",
    "SLURM_NODEID": "0",
    "SLURM_NNODES": "2",
}
MPI = {
    "OMPI_COMM_WORLD_RANK": "0",
    "OMPI_COMM_WORLD_SIZE": "2",
    "OMPI_COMM_WORLD_LOCAL_RANK": "0",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
}
PMI = {"PMI_RANK": "0", "PMI_SIZE": "2", "MPI_LOCALRANKID": "0", "MPI_LOCALNRANKS": "2"}
LSF = {
    "JSM_NAMESPACE_RANK": "0",
    "JSM_NAMESPACE_SIZE": "2",
    "JSM_NAMESPACE_LOCAL_RANK": "0",
    "JSM_NAMESPACE_LOCAL_SIZE": "2",
    "LSB_JOBID": "1",
    "LSB_DJOB_RANKFILE": "f",
}
KUBEFLOW = {"KUBERNETES_PORT": "x", "MASTER_ADDR": "h", "MASTER_PORT": "1", "RANK": "0", "WORLD_SIZE": "2"}


@pytest.mark.parametrize(
    ("counts", "strategy", "expected"),
    [
        ({}, "auto", "cpu"),
        ({"cuda": 1, "mps": 1}, "auto", "cuda"),
        ({"xpu": 1, "mps": 1}, "auto", "xpu"),
        ({"cuda": 1, "xpu": 1}, "auto", "cuda"),
        ({"hpu": 1, "cuda": 1}, "auto", "hpu"),
        ({"ipu": 1, "hpu": 1}, "auto", "ipu"),
        ({"tpu": 8, "ipu": 1, "hpu": 1, "cuda": 1}, "auto", "tpu"),
        ({"mps": 1}, "ddp", "cpu"),
        ({"tpu": 8, "cuda": 2}, "fsdp", "cuda"),
        ({"hpu": 8, "cuda": 2}, "tp", "cuda"),
        ({"cuda": 2, "tpu": 8}, "xla", "tpu"),
    ],
)
def test_auto_takes_the_preferred_accelerator_that_can_run_the_strategy(
    counts: dict[str, int], strategy: str, expected: str
) -> None:
    plan = dt.plan(machine=dt.Machine(counts), strategy=strategy)
    assert plan.accelerator == expected
    assert plan.sources["accelerator"].origin is Origin.MACHINE


def test_the_reason_says_what_was_passed_over() -> None:
    plan = dt.plan(machine=dt.Machine(mps=1), strategy="ddp")
    assert "strategy 'ddp' does not run on mps" in plan.sources["accelerator"].reason


@pytest.mark.parametrize(
    ("counts", "expected"), [({"cuda": 1, "mps": 1}, "cuda"), ({"mps": 1}, "mps"), ({"xpu": 2}, "xpu")]
)
def test_gpu_means_the_gpu_backend_that_is_there(counts: dict[str, int], expected: str) -> None:
    assert dt.plan(machine=dt.Machine(counts), accelerator="gpu").accelerator == expected


def test_devices_follow_the_hardware() -> None:
    assert dt.plan(machine=dt.Machine(cuda=4)).device_ids == (0, 1, 2, 3)
    assert dt.plan(machine=dt.Machine(cuda=4), strategy="single").num_devices == 1
    assert dt.plan(machine=dt.Machine(num_cpus=16)).num_devices == 1
    notebook = dt.plan(machine=dt.Machine(cuda=4, notebook=True))
    assert notebook.num_devices == 1
    assert "say devices=4 for all" in notebook.sources["devices"].reason


@pytest.mark.parametrize(
    ("flags", "machine", "expected"),
    [
        ({}, dt.Machine(), "none"),
        ({"devices": 2}, dt.Machine(), "subprocess"),
        ({"devices": 2}, dt.Machine(notebook=True), "fork"),
        ({"devices": 2}, dt.Machine(notebook=True, fork=False), "subprocess"),
        ({"devices": 2}, dt.Machine(cuda=2, notebook=True), "fork"),
        ({"devices": 2}, dt.Machine(cuda=2, notebook=True, touched=["cuda"]), "subprocess"),
        ({}, dt.Machine({}, TORCHRUN), "external"),
        ({}, dt.Machine(tpu=8), "xla"),
        ({"devices": 1}, dt.Machine(tpu=8), "none"),
        ({"strategy": "ddp_spawn", "devices": 2}, dt.Machine(), "spawn"),
        ({"strategy": "ddp_notebook", "devices": 2}, dt.Machine(), "fork"),
    ],
)
def test_the_launcher_follows_from_who_starts_the_ranks(
    flags: dict, machine: dt.Machine, expected: str
) -> None:
    assert dt.plan(machine=machine, **flags).launcher == expected


@pytest.mark.parametrize(
    ("variables", "name", "world"),
    [
        (TORCHRUN, "torchrun", 4),
        (BY_HAND, "torchrun", 2),
        (SLURM, "slurm", 4),
        (MPI, "mpi", 2),
        (PMI, "mpi", 2),
        (LSF, "lsf", 2),
        (KUBEFLOW, "kubeflow", 2),
        ({**SLURM, **TORCHRUN}, "torchrun", 4),
        ({**SLURM, **MPI}, "mpi", 2),
        ({**KUBEFLOW, **TORCHRUN}, "torchrun", 4),
    ],
)
def test_a_complete_set_of_variables_is_an_environment(
    variables: dict[str, str], name: str, world: int
) -> None:
    plan = dt.plan(machine=dt.Machine({}, variables))
    assert (plan.environment, plan.world_size, plan.launcher) == (name, world, "external")


@pytest.mark.parametrize("complete", [TORCHRUN, SLURM, MPI, LSF, KUBEFLOW])
def test_a_set_that_lacks_a_variable_means_nothing(complete: dict[str, str]) -> None:
    for lost in complete:
        if lost in ("SLURM_NNODES", "JSM_NAMESPACE_LOCAL_SIZE"):
            continue
        partial = {name: value for name, value in complete.items() if name != lost}
        plan = dt.plan(machine=dt.Machine({}, partial), devices=2)
        assert (plan.environment, plan.launcher) == ("none", "subprocess"), lost
        assert "alone say nothing" in plan.sources["environment"].reason


@pytest.mark.parametrize("name", ["bash", "interactive"])
def test_an_interactive_slurm_shell_is_no_launch(name: str) -> None:
    plan = dt.plan(machine=dt.Machine({}, {**SLURM, "SLURM_JOB_NAME": name}), devices=2)
    assert (plan.environment, plan.launcher) == ("none", "subprocess")


def test_srun_inside_of_an_interactive_allocation_is_a_launch() -> None:
    step = {**SLURM, "SLURM_JOB_NAME": "interactive", "SLURM_STEP_NUM_TASKS": "4"}
    assert dt.plan(machine=dt.Machine({}, step)).environment == "slurm"
    shell = dt.Machine({}, {**step, "SLURM_STEP_NUM_TASKS": "1"})
    assert dt.plan(machine=shell, devices=2).environment == "none"


@pytest.mark.parametrize("variables", [TORCHRUN, SLURM, MPI, LSF])
def test_ranks_that_a_cluster_started_are_not_started_again_by_torch_xla(variables: dict[str, str]) -> None:
    local = 2 if variables is not LSF else int(variables["JSM_NAMESPACE_LOCAL_SIZE"])
    machine = dt.Machine({"tpu": local}, variables)
    plan = dt.plan(machine=machine)
    assert (plan.accelerator, plan.strategy.name, plan.launcher) == ("tpu", "xla", "external")
    assert plan.environment == dt.plan(machine=dt.Machine({}, variables)).environment
    for said in ({"strategy": "xla"}, {"environment": plan.environment}, {"launcher": "external"}):
        assert dt.plan(machine=machine, **said) == plan
    with pytest.raises(dt.PlanError) as raised:
        dt.plan(machine=machine, launcher="xla")
    assert raised.value.conflicts[0].code == "plan.launcher-environment"


def test_environment_overrides_detection() -> None:
    both = dt.Machine({}, {**SLURM, **TORCHRUN})
    assert dt.plan(machine=both, environment="slurm").environment == "slurm"
    alone = dt.plan(machine=both, environment="none", devices=2)
    assert (alone.environment, alone.launcher, alone.world_size) == ("none", "subprocess", 2)


def test_unsaid_counts_follow_what_the_cluster_started() -> None:
    plan = dt.plan(machine=dt.Machine({"cuda": 8}, SLURM))
    assert (plan.num_devices, plan.num_nodes) == (2, 2)
    assert plan.sources["num_nodes"].origin is Origin.VARIABLE


@pytest.mark.parametrize(
    ("strategy", "devices", "nodes", "expected"),
    [
        ("single", 1, 1, {}),
        ("ddp", 4, 1, {"dp_replicate": 4}),
        ("fsdp", 4, 2, {"dp_shard": 8}),
        ("hsdp", 4, 2, {"dp_replicate": 2, "dp_shard": 4}),
        ("hsdp(replicate=4)", 4, 2, {"dp_replicate": 4, "dp_shard": 2}),
        ("fsdp+tp(size=2)", 8, 1, {"dp_shard": 4, "tp": 2}),
        ("tp(size=2)+fsdp", 8, 1, {"dp_shard": 4, "tp": 2}),
        ("ddp+tp(size=4)", 8, 1, {"dp_replicate": 2, "tp": 4}),
        ("pp(size=2)+fsdp", 8, 1, {"pp": 2, "dp_shard": 4}),
        ("hsdp(replicate=2)+tp(size=2)", 8, 1, {"dp_replicate": 2, "dp_shard": 2, "tp": 2}),
        ("tp", 4, 1, {"tp": 4}),
        ("pp(size=2)+tp", 8, 1, {"pp": 2, "tp": 4}),
        ("ep", 4, 1, {"ep": 4}),
        ("cp(size=2)+fsdp", 4, 1, {"cp": 2, "dp_shard": 2}),
        ("zero1", 4, 1, {"dp_replicate": 4}),
        ("deepspeed(stage=3)", 4, 1, {"dp_shard": 4}),
        ("deepspeed", 4, 1, {"dp_replicate": 4}),
    ],
)
def test_the_layout_fills_the_world(
    strategy: str, devices: int, nodes: int, expected: dict[str, int]
) -> None:
    plan = dt.plan(machine=dt.Machine(cuda=8), strategy=strategy, devices=devices, num_nodes=nodes)
    assert {axis: size for axis, size in plan.layout.items() if size > 1} == expected
    assert list(plan.layout) == ["pp", "dp_replicate", "dp_shard", "cp", "tp", "ep"]


def test_the_backend_follows_the_accelerator_unless_it_is_said() -> None:
    assert dt.plan(machine=dt.Machine(cuda=2)).process_group_backend == "nccl"
    assert dt.plan(machine=dt.Machine(), devices=2).process_group_backend == "gloo"
    assert dt.plan(machine=dt.Machine()).process_group_backend == "none"
    said = dt.plan(machine=dt.Machine(cuda=2), strategy="ddp(process_group_backend=gloo)")
    assert said.process_group_backend == "gloo"


def test_a_sharded_strategy_writes_shards() -> None:
    assert dt.plan(machine=dt.Machine(cuda=2), strategy="tp").checkpoint_io == "sharded"
    assert dt.plan(machine=dt.Machine(cuda=2), strategy="fsdp").checkpoint_io == "local"
    assert dt.plan(machine=dt.Machine(cuda=2), strategy="ddp").checkpoint_io == "local"
