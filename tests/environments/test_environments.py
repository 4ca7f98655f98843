"""Each environment as a table: variables in, a place or one error out."""

from __future__ import annotations

import pytest

import drivetrain as dt
from drivetrain.environments.kubeflow import KubeflowEnvironment
from drivetrain.environments.lsf import LSFEnvironment
from drivetrain.environments.mpi import MPIEnvironment
from drivetrain.environments.slurm import SLURMEnvironment, first_host
from drivetrain.environments.torchrun import TorchrunEnvironment
from drivetrain.resolver.ranks import Ranks

TORCHRUN = {
    "RANK": "5",
    "WORLD_SIZE": "8",
    "LOCAL_RANK": "1",
    "LOCAL_WORLD_SIZE": "4",
    "GROUP_RANK": "1",
    "MASTER_ADDR": "node1",
    "MASTER_PORT": "29400",
}
BY_HAND = {
    name: TORCHRUN[name] for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
}
KUBEFLOW = {
    "RANK": "2",
    "WORLD_SIZE": "3",
    "MASTER_ADDR": "job-master-0",
    "MASTER_PORT": "23456",
    "KUBERNETES_PORT": "tcp://10.0.0.1:443",
}
SLURM = {
    "SLURM_PROCID": "3",
    "SLURM_NTASKS": "4",
    "SLURM_LOCALID": "1",
    "SLURM_NODEID": "1",
    "SLURM_NNODES": "2",
    "SLURM_JOB_ID": "4017",
    "SLURM_JOB_NODELIST": "gpu[07-08]",
}
OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "3",
    "OMPI_COMM_WORLD_SIZE": "4",
    "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
    # The number of this process on its node over all jobs: no node's number.
    "OMPI_COMM_WORLD_NODE_RANK": "1",
}
MPICH = {"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2"}
LSF = {
    "JSM_NAMESPACE_RANK": "1",
    "JSM_NAMESPACE_SIZE": "4",
    "JSM_NAMESPACE_LOCAL_RANK": "1",
    "JSM_NAMESPACE_LOCAL_SIZE": "2",
    "LSB_JOBID": "77",
    "LSB_DJOB_RANKFILE": "/nowhere",
}


@pytest.mark.parametrize(
    ("environment", "variables", "expected"),
    [
        (TorchrunEnvironment(), TORCHRUN, Ranks(5, 1, 1, 8, 4, 2)),
        (TorchrunEnvironment(), BY_HAND, Ranks(5, 1, 0, 8, 8, 1)),
        (KubeflowEnvironment(), KUBEFLOW, Ranks(2, 0, 2, 3, 1, 3)),
        (SLURMEnvironment(), SLURM, Ranks(3, 1, 1, 4, 2, 2)),
        (MPIEnvironment(), OPEN_MPI, Ranks(3, 1, 1, 4, 2, 2)),
        (MPIEnvironment(), MPICH, Ranks(1, 1, 0, 2, 2, 1)),
        (LSFEnvironment(), LSF, Ranks(1, 1, 0, 4, 2, 2)),
    ],
)
def test_a_complete_set_of_variables_gives_the_place(environment, variables, expected):
    assert environment.ranks(variables) == expected
    assert environment.facts.name in environment.facts.runtime.lower()


@pytest.mark.parametrize(
    ("environment", "variables", "said"),
    [
        (TorchrunEnvironment(), {"LOCAL_RANK": "0"}, "not complete: RANK, WORLD_SIZE"),
        (TorchrunEnvironment(), {**TORCHRUN, "RANK": "five"}, "RANK='five' is not a number"),
        (TorchrunEnvironment(), {**TORCHRUN, "RANK": "8"}, "contradict"),
        (TorchrunEnvironment(), {**TORCHRUN, "WORLD_SIZE": "-1"}, "WORLD_SIZE='-1' is not a number"),
        (KubeflowEnvironment(), {**KUBEFLOW, "LOCAL_RANK": "0"}, "not complete"),
        (SLURMEnvironment(), {**SLURM, "SLURM_JOB_NAME": "bash"}, "not complete"),
        (SLURMEnvironment(), {**SLURM, "SLURM_NTASKS": ""}, "SLURM_NTASKS='' is not a number"),
        (MPIEnvironment(), {"OMPI_COMM_WORLD_RANK": "0"}, "OMPI_COMM_WORLD_SIZE"),
        (LSFEnvironment(), {**LSF, "JSM_NAMESPACE_SIZE": "1"}, "contradict"),
    ],
)
def test_variables_that_make_no_sense_are_named(environment, variables, said):
    with pytest.raises(dt.LaunchError, match=r"\[environment.bad-variables\]") as caught:
        environment.ranks(variables)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("environment", "variables", "address", "port"),
    [
        (TorchrunEnvironment(), TORCHRUN, "node1", 29400),
        (KubeflowEnvironment(), KUBEFLOW, "job-master-0", 23456),
        (SLURMEnvironment(), SLURM, "gpu07", 19017),
        (SLURMEnvironment(), {**SLURM, "SLURM_STEP_NODELIST": "gpu09"}, "gpu09", 19017),
        (SLURMEnvironment(), {**SLURM, "SLURM_STEP_ID": "1"}, "gpu07", 19118),
        (SLURMEnvironment(), {**SLURM, "MASTER_ADDR": "10.0.0.7", "MASTER_PORT": "1234"}, "10.0.0.7", 1234),
        (MPIEnvironment(), {**OPEN_MPI, "MASTER_ADDR": "n", "MASTER_PORT": " 9 "}, "n", 9),
        (LSFEnvironment(), {**LSF, "MASTER_ADDR": "n"}, "n", 15077),
    ],
)
def test_the_meeting_point_follows_from_the_variables(environment, variables, address, port):
    assert environment.main_address(variables) == address
    assert environment.main_port(variables) == port


@pytest.mark.parametrize(
    ("environment", "variables", "name"),
    [
        (TorchrunEnvironment(), {}, "MASTER_ADDR"),
        (KubeflowEnvironment(), {"MASTER_ADDR": ""}, "MASTER_ADDR"),
        (SLURMEnvironment(), {"SLURM_PROCID": "0"}, "SLURM_STEP_NODELIST"),
        (MPIEnvironment(), OPEN_MPI, "MASTER_ADDR"),
        (LSFEnvironment(), LSF, "LSB_DJOB_RANKFILE"),
    ],
)
def test_a_missing_address_is_an_error_with_the_way_out(environment, variables, name):
    with pytest.raises(dt.LaunchError, match=r"\[environment.no-address\]") as caught:
        environment.main_address(variables)
    assert name in str(caught.value)
    assert "MASTER_ADDR" in caught.value.hint
    with pytest.raises(dt.LaunchError, match=r"\[environment.no-address\]"):
        environment.main_port({})


def test_mpi_says_the_line_to_start_with():
    with pytest.raises(dt.LaunchError) as caught:
        MPIEnvironment().main_port(OPEN_MPI)
    assert "mpirun -x MASTER_ADDR=<host of rank 0> -x MASTER_PORT=29500" in caught.value.hint


@pytest.mark.parametrize("text", ["0", "65536", "http", "-1", "1.5"])
def test_a_port_that_is_none_is_refused(text):
    for environment in (TorchrunEnvironment(), SLURMEnvironment(), LSFEnvironment()):
        with pytest.raises(dt.LaunchError, match="is not a port"):
            environment.main_port({"MASTER_PORT": text})


@pytest.mark.parametrize(
    ("nodelist", "first"),
    [
        ("n1", "n1"),
        ("n1,n2", "n1"),
        ("n[1-2,5]", "n1"),
        ("n[5,1-2],m3", "n5"),
        ("gpu[003-007,9]-ib,login", "gpu003-ib"),
        ("r[1-2]n[3-4]", "r1n3"),
        ("10.0.0.1,10.0.0.2", "10.0.0.1"),
        (" a-b-c ", "a-b-c"),
        ("", ""),
        ("n[", "n"),
    ],
)
def test_the_first_host_of_slurms_short_form(nodelist, first):
    assert first_host(nodelist) == first


@pytest.mark.parametrize(
    ("text", "first"),
    [("batch1\nc01\nc01\nc02\n", "c01"), ("c01\nc01\n", "c01"), ("c01", "c01"), ("batch c1 c2", "c1")],
)
def test_the_first_compute_host_of_lsfs_rank_file(tmp_path, text, first):
    path = tmp_path / "ranks"
    path.write_text(text)
    assert LSFEnvironment().main_address({**LSF, "LSB_DJOB_RANKFILE": str(path)}) == first


@pytest.mark.parametrize(
    "variables",
    [
        {"RANK": "0", "WORLD_SIZE": "4", "LOCAL_RANK": "3", "LOCAL_WORLD_SIZE": "2", "GROUP_RANK": "0"},
        {
            "SLURM_PROCID": "0",
            "SLURM_NTASKS": "2",
            "SLURM_LOCALID": "0",
            "SLURM_NODEID": "7",
            "SLURM_NNODES": "1",
        },
        {
            "SLURM_PROCID": "0",
            "SLURM_NTASKS": "2",
            "SLURM_LOCALID": "0",
            "SLURM_NODEID": "0",
            "SLURM_NNODES": "0",
        },
    ],
)
def test_places_that_cannot_be_are_an_error_in_the_plan(variables) -> None:
    with pytest.raises(dt.PlanError, match="contradict each other"):
        dt.plan(devices="auto", machine=dt.Machine(variables=variables))


def test_a_shell_of_any_name_is_no_launch() -> None:
    for shell in ("bash", "zsh", "sh"):
        variables = {
            "SLURM_PROCID": "0",
            "SLURM_NTASKS": "4",
            "SLURM_LOCALID": "0",
            "SLURM_NODEID": "0",
            "SLURM_NNODES": "1",
            "SLURM_JOB_NAME": shell,
        }
        assert dt.plan(machine=dt.Machine(variables=variables)).environment == "none"
