"""Several machines by hand, and launchers that start no process."""

from __future__ import annotations

import pytest

import drivetrain as dt
from drivetrain.environments.torchrun import TorchrunEnvironment
from drivetrain.launchers.here import ExternalLauncher, NoLauncher
from drivetrain.launchers.multiprocessing import MultiprocessingLauncher
from drivetrain.launchers.nodes import Node
from drivetrain.launchers.subprocess import SubprocessLauncher
from drivetrain.launchers.threads import threads_for, torch_threads, with_threads
from drivetrain.machine import probe
from drivetrain.resolver.ranks import Ranks

BY_HAND = {"NODE_RANK": "1", "MASTER_ADDR": "node0", "MASTER_PORT": "29500"}


def plan_of(**flags):
    return dt.plan(accelerator="cpu", strategy="ddp", machine=dt.Machine(), **flags)


def test_one_node_needs_no_variables():
    node = Node.of(plan_of(devices=3), {})
    assert node.ranks(2) == Ranks(2, 2, 0, 3, 3, 1)


def test_a_node_knows_its_ranks_from_the_variables():
    node = Node.of(plan_of(devices=2, num_nodes=2), BY_HAND)
    assert [node.ranks(local_rank) for local_rank in (0, 1)] == [
        Ranks(2, 0, 1, 4, 2, 2),
        Ranks(3, 1, 1, 4, 2, 2),
    ]
    first, second = node.place(7), node.place(7)
    assert (first.address, first.port, first.timeout_s, first.serves) == ("node0", 29500, 7, False)
    assert first.session != second.session
    assert node.peer_place(first, 1).session == first.session
    assert Node.of(plan_of(devices=2, num_nodes=2), {**BY_HAND, "DRIVETRAIN_NODE_RANK": "0"}).place(7).serves


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"NODE_RANK": "2"}, "NODE_RANK is '2'"),
        ({"NODE_RANK": "one"}, "NODE_RANK is 'one'"),
        ({"MASTER_PORT": "x"}, "MASTER_PORT is 'x'"),
        ({"MASTER_ADDR": ""}, "MASTER_ADDR is not set"),
        ({"DRIVETRAIN_NODE_RANK": ""}, "DRIVETRAIN_NODE_RANK is not set"),
    ],
)
def test_a_variable_that_is_missing_or_senseless_is_named(change, said):
    with pytest.raises(dt.LaunchError, match=r"\[launch.no-node-rank\]") as caught:
        SubprocessLauncher(variables={**BY_HAND, **change}).launch(plan_of(devices=1, num_nodes=2), print)
    assert f"num_nodes=2, but {said}" in caught.value.message


def test_cores_are_shared_unless_the_user_has_decided():
    assert threads_for(1, {}) == probe.num_cpus()
    assert threads_for(10_000, {}) == 1
    assert threads_for(2, {"OMP_NUM_THREADS": "7"}) is None
    assert with_threads({"A": "b"}, 3) == {"A": "b", "OMP_NUM_THREADS": "3"}
    assert with_threads({"A": "b"}, None) == {"A": "b"}
    with torch_threads(None):
        pass


def test_one_rank_is_this_process():
    assert NoLauncher().launch(plan_of(devices=1), lambda place: place.ranks) == Ranks()
    with pytest.raises(SystemExit):
        NoLauncher().launch(plan_of(devices=1), lambda place: exit())  # noqa: PLR1722 - as users write it


def test_every_launcher_has_the_facts_of_its_name():
    launchers = [NoLauncher(), ExternalLauncher(TorchrunEnvironment(), {}), SubprocessLauncher()]
    launchers += [MultiprocessingLauncher(method) for method in ("spawn", "fork", "forkserver")]
    names = [launcher.facts.name for launcher in launchers]
    assert names == ["none", "external", "subprocess", "spawn", "fork", "forkserver"]
    assert all(launcher.facts.runtime.endswith(type(launcher).__name__) for launcher in launchers)


def test_an_external_rank_says_in_one_line_where_it_failed(capsys):
    variables = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "MASTER_ADDR": "x", "MASTER_PORT": "1"}
    launcher = ExternalLauncher(TorchrunEnvironment(), variables)

    def fails(place) -> None:
        raise ValueError("bad batch")

    with pytest.raises(ValueError, match="bad batch"):
        launcher.launch(plan_of(devices=1), fails)
    assert capsys.readouterr().err == "drivetrain: rank 0 failed: ValueError: bad batch\n"
    with pytest.raises(
        dt.LaunchError, match=r"\[launch.world-mismatch\] torchrun started 1 ranks, the plan has 2"
    ):
        launcher.launch(plan_of(devices=2), fails)
