"""What a user's script sees: no guard, classes of its own, exit codes, nothing left behind."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys

import pytest

from tests.ranks.scripts import is_alive, run_script, wait_until, write_script

pytestmark = pytest.mark.ranks


def test_a_script_without_guard_runs_once_and_may_use_all_of_its_names(tmp_path):
    (tmp_path / "neighbour.py").write_text("VALUE = 41\n")
    # A file with the name of a module that torch imports must not get in the way of the other ranks.
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "typing_extensions.py").write_text("raise RuntimeError('shadowed')\n")
    done = run_script(
        tmp_path,
        """
        import neighbour, pickle
        open("times_run", "a").write("x")

        class Box:
            def __init__(self, value):
                self.value = value

        class MyError(Exception):
            pass

        def double(value):
            return 2 * value

        box = Box(neighbour.VALUE)

        def body(place):
            collectives = connect(place, "gloo", cpu)
            mine = Box(double(box.value) + place.ranks.rank)
            pickle.loads(pickle.dumps(mine))  # plain pickle finds the script's class on each rank
            boxes = collectives.all_gather_object(mine)
            seen = (place.ranks.rank, sys.argv, __name__, neighbour.VALUE, sys.stdin.read())
            sys.stdout.write(f"hello from {seen}\\n")  # one write, so that ranks' lines do not mix
            return boxes

        sys.stdin = open(os.devnull)
        os.chdir("elsewhere")
        boxes = SubprocessLauncher().launch(plan, body)
        print([box.value for box in boxes], {type(box) is Box for box in boxes})

        def fails(place):
            if place.ranks.rank == 1:
                raise MyError("mine")
            time.sleep(30)

        import drivetrain.launchers.watch as watch
        watch._STUBBORN_S = 0.1
        try:
            SubprocessLauncher().launch(plan, fails)
        except dt.RankFailure as error:
            print(type(error.__cause__) is MyError, error.remote_traceback)
        """,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "times_run").read_text() == "x"
    assert "[82, 83] {True}" in done.stdout
    path = str(tmp_path / "script.py")
    for rank in (0, 1):
        assert f"hello from {(rank, [path], '__main__', 41, '')}\n" in done.stdout
    assert "True Traceback" in done.stdout
    assert 'raise MyError("mine")' in done.stdout


def test_a_failing_script_never_ends_with_zero(tmp_path):
    done = run_script(
        tmp_path,
        """
        def body(place):
            collectives = connect(place, "gloo", cpu)
            for step in range(4):
                HERE.note(stage="fit", step=step)
                if (place.ranks.rank, step) == (1, 2):
                    sys.exit(0)
                collectives.all_reduce(torch.ones(1))

        SubprocessLauncher().launch(plan, body)
        """,
    )
    assert done.returncode == 1
    assert "[rank.failed] rank 1 failed at stage fit, step 2: SystemExit: 0" in done.stderr
    assert "During handling of the above" not in done.stderr


def test_a_caller_that_cannot_be_reached_ends_with_the_report(tmp_path):
    done = run_script(
        tmp_path,
        """
        import signal
        import drivetrain.launchers.watch as watch
        watch._STUBBORN_S = 0.3

        def body(place):
            if place.ranks.rank == 1:
                raise ValueError("early")
            while True:
                try:
                    time.sleep(60)
                except BaseException as error:
                    print("caught", type(error).__name__, flush=True)

        SubprocessLauncher().launch(plan, body)
        """,
    )
    assert done.returncode == 1
    assert "caught PeerLost" in done.stdout
    assert "[rank.failed] rank 1 failed: ValueError: early" in done.stderr


def test_ranks_end_when_their_parent_is_killed(tmp_path):
    script = write_script(
        tmp_path,
        """
        def body(place):
            collectives = connect(place, "gloo", cpu)
            pids = collectives.all_gather_object(os.getpid())
            if place.ranks.rank == 0:
                print(*pids, flush=True)
            time.sleep(60)

        SubprocessLauncher().launch(plan, body)
        """,
    )
    with subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True) as process:
        caller, other = map(int, process.stdout.readline().split())
        assert caller == process.pid
        assert is_alive(other)
        os.kill(caller, signal.SIGKILL)
        assert wait_until(lambda: not is_alive(other), 5)


def test_ranks_that_torchrun_started_use_its_variables(tmp_path):
    done = run_script(
        tmp_path,
        """
        from drivetrain.environments.torchrun import TorchrunEnvironment
        from drivetrain.launchers.here import ExternalLauncher
        import torch.distributed as dist

        def body(place):
            collectives = connect(place, "gloo", cpu)
            seen = collectives.all_gather_object((place.ranks.rank, os.getpid()))
            disconnect(collectives)
            return seen

        launcher = ExternalLauncher(TorchrunEnvironment())
        for _ in range(2):
            seen = launcher.launch(plan, body)
            assert [rank for rank, _ in seen] == [0, 1]
            assert seen[int(os.environ["RANK"])][1] == os.getpid()
        assert not dist.is_initialized()
        dist.init_process_group("gloo")
        launcher.launch(plan, body)
        assert dist.is_initialized()  # it was the script's
        print("good", flush=True)
        try:
            launcher.launch(dt.plan(accelerator="cpu", devices=3, environment="none"), body)
        except dt.LaunchError as error:
            assert error.code == "launch.world-mismatch"

        def fails(place):
            HERE.note(stage="fit", step=3)
            if place.ranks.rank == 1:
                raise ValueError("bad batch")
            connect(place, "gloo", cpu).barrier()

        launcher.launch(plan, fails)
        """,
        "-m",
        "torch.distributed.run",
        "--nproc-per-node=2",
        "--master-port=0",
        "--rdzv-backend=c10d",
        "--rdzv-endpoint=localhost:0",
    )
    assert done.stdout.count("good") == 2, done.stderr
    assert done.returncode != 0
    assert "drivetrain: rank 1 failed at stage fit, step 3: ValueError: bad batch" in done.stderr


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_pythons_own_start_methods_need_a_guard(tmp_path, method):
    guarded = run_script(
        tmp_path,
        f"""
        class Box:
            count = 0

        if __name__ == "__main__":
            box = Box()

            def body(place):
                box.count += 1
                return connect(place, "gloo", cpu).all_gather_object((place.ranks.rank, box))

            launcher = MultiprocessingLauncher("{method}")
            for _ in range(2):
                begin = time.monotonic()
                seen = launcher.launch(plan, body)
                print([(rank, other.count, type(other) is Box) for rank, other in seen])
                print("seconds", time.monotonic() - begin)

            def fails(place):
                if place.ranks.rank == 1:
                    raise ValueError("bad batch")
                connect(place, "gloo", cpu).barrier()

            try:
                launcher.launch(plan, fails)
            except dt.RankFailure as error:
                print(str(error).splitlines()[0])
        """,
    )
    assert guarded.returncode == 0, guarded.stderr
    assert "[(0, 1, True), (1, 1, True)]" in guarded.stdout
    assert "[(0, 2, True), (1, 2, True)]" in guarded.stdout
    assert "[rank.failed] rank 1 failed: ValueError: bad batch" in guarded.stdout

    unguarded = run_script(
        tmp_path,
        f"""MultiprocessingLauncher("{method}").launch(plan, lambda place: connect(place, "gloo", cpu))""",
    )
    assert unguarded.returncode == 1
    assert "[launch.unguarded-main]" in unguarded.stderr.splitlines()[-5:][0] or (
        "launch.unguarded-main" in unguarded.stderr
    )
    assert "launcher='subprocess'" in unguarded.stderr


def test_fork_shares_memory_and_says_when_torch_cannot(tmp_path):
    done = run_script(
        tmp_path,
        """
        box = []
        torch.set_num_threads(2)

        def body(place):
            box.append(place.ranks.rank)
            weight = torch.ones(300, 300, requires_grad=True)
            (weight @ weight).sum().backward()
            return connect(place, "gloo", cpu).all_gather_object((box, os.getppid()))

        launcher = MultiprocessingLauncher("fork")
        for count in (1, 2):
            seen = launcher.launch(plan, body)
            assert [mine for mine, _ in seen] == [[0] * count, [0] * (count - 1) + [1]], seen
            assert seen[1][1] == os.getpid()

        # On a machine with a GPU, torch refuses in the fork what it ran in the parent.
        def refuses(*args):
            raise RuntimeError("Unable to handle autograd's threading in combination with fork")

        backward, torch.Tensor.backward = torch.Tensor.backward, refuses
        for _ in range(2):
            begin = time.monotonic()
            try:
                launcher.launch(plan, lambda place: connect(place, "gloo", cpu))
            except dt.LaunchError as error:
                print(error.code, error.hint, time.monotonic() - begin < 5)
            torch.Tensor.backward = backward
            torch.cuda.is_initialized = lambda: True
        """,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("launch.fork-after-torch pass launcher='subprocess' True") == 2


def test_two_nodes_by_hand_meet_at_the_port_that_they_were_given(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    script = write_script(
        tmp_path,
        """
        plan = dt.plan(accelerator="cpu", devices=2, num_nodes=2, strategy="ddp", environment="none")
        launcher = SubprocessLauncher()

        def body(place):
            return connect(place, "gloo", cpu).all_gather_object((place.ranks.rank, place.ranks.node_rank))

        for _ in range(2):
            print(launcher.launch(plan, body), flush=True)
        """,
    )
    processes = []
    for node_rank in (1, 0):  # rank 0's node comes last
        variables = {"NODE_RANK": str(node_rank), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        processes.append(
            subprocess.Popen(
                [sys.executable, str(script)],
                env={**os.environ, **variables, "OMP_NUM_THREADS": "1"},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    for process in processes:
        output, errors = process.communicate(timeout=60)
        assert output == "[(0, 0), (1, 0), (2, 1), (3, 1)]\n" * 2, errors
