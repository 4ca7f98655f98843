"""One launch in this process: what each rank gets, what the caller keeps, which failure it sees."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import pytest
import torch

import drivetrain as dt
from drivetrain.base.where import HERE
from drivetrain.collectives.connect import connect, disconnect
from drivetrain.collectives.place import Place
from drivetrain.launchers import watch
from drivetrain.launchers.subprocess import SubprocessLauncher
from drivetrain.resolver.ranks import Ranks
from tests.ranks.scripts import children

pytestmark = pytest.mark.ranks

CPU = torch.device("cpu")


class Counter:
    def __init__(self) -> None:
        self.count = 0


def launch(body, devices: int = 2, timeout_s: float = 60):
    plan = dt.plan(accelerator="cpu", devices=devices, strategy="ddp")
    return SubprocessLauncher(timeout_s=timeout_s).launch(plan, body)


def surroundings():
    variables = {name: text for name, text in os.environ.items() if name != "PYTEST_CURRENT_TEST"}
    handlers = [
        signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD, signal.SIGURG)
    ]
    return {
        "variables": variables,
        "handlers": handlers,
        "folder": Path.cwd(),
        "torch threads": torch.get_num_threads(),
        "threads": threading.active_count(),
        "children": children(),
        "connected": torch.distributed.is_initialized(),
    }


@pytest.fixture(autouse=True)
def _nothing_changes():
    """After every launch in this file, good or bad, the caller is as before and alone."""
    before = surroundings()
    yield
    HERE.clear()
    assert surroundings() == before


def test_ranks_stand_in_order_and_the_caller_keeps_its_objects():
    counter = Counter()
    caller = os.getpid()

    def body(place: Place):
        counter.count += 1
        collectives = connect(place, "gloo", CPU)
        seen = collectives.all_gather_object((place.ranks, os.getpid(), counter, torch.get_num_threads()))
        dtypes.append([str(one) for one in collectives.all_gather_object(torch.get_default_dtype())])
        disconnect(collectives)
        return seen

    dtypes: list[list[str]] = []
    torch.set_default_dtype(torch.float64)
    for count in (1, 2):
        try:
            seen = launch(body, devices=3)
        finally:
            torch.set_default_dtype(torch.float32)
        assert dtypes[-1] == ["torch.float64" if count == 1 else "torch.float32"] * 3
        assert [ranks for ranks, *_ in seen] == [Ranks(rank, rank, 0, 3, 3, 1) for rank in range(3)]
        assert [pid == caller for _, pid, *_ in seen] == [True, False, False]
        assert [number.count for _, _, number, _ in seen] == [count, count, count]
        assert counter.count == count
        assert len({num_threads for *_, num_threads in seen}) == 1


def test_collectives_agree_with_what_they_promise():
    def body(place: Place):
        collectives = connect(place, "gloo", CPU)
        rank = float(collectives.rank)
        grid = torch.arange(6.0).reshape(2, 3).t()
        found = {
            "sum": collectives.all_reduce(torch.tensor([rank + 1])).item(),
            "mean": collectives.all_reduce(torch.tensor([rank]), "mean").item(),
            "max": collectives.all_reduce(torch.tensor([rank]), "max").item(),
            "min": collectives.all_reduce(torch.tensor([rank]), "min").item(),
            "strided": collectives.all_reduce((grid + rank).t(), "mean").tolist(),
            "leaf": collectives.all_reduce(torch.ones(1, requires_grad=True), "mean").item(),
            "gather": [part.tolist() for part in collectives.all_gather(torch.full((2,), rank))],
            "broadcast": collectives.broadcast(torch.tensor([rank]), source=1).item(),
            "objects": collectives.all_gather_object("x" * (1 + collectives.rank)),
            "broadcast_object": collectives.broadcast_object({"from": collectives.rank}, source=1),
        }
        to_zero = collectives.gather_object(collectives.rank)
        found["only zero has it"] = [part is None for part in collectives.all_gather_object(to_zero)]
        collectives.barrier()
        for op, code in (("mean", "integer-mean"), ("xor", "unknown-op")):
            with pytest.raises(dt.CollectiveError, match=code):
                collectives.all_reduce(torch.tensor([1]), op)
        disconnect(collectives)
        disconnect(collectives)
        again = connect(place, "gloo", CPU)
        found["again"] = again.all_reduce(torch.ones(1)).item()
        return found  # the launcher closes what is left open

    assert launch(body) == {
        "sum": 3.0,
        "mean": 0.5,
        "max": 1.0,
        "min": 0.0,
        "strided": [[0.5, 1.5, 2.5], [3.5, 4.5, 5.5]],
        "leaf": 1.0,
        "gather": [[0.0, 0.0], [1.0, 1.0]],
        "broadcast": 1.0,
        "objects": ["x", "xx"],
        "broadcast_object": {"from": 1},
        "only zero has it": [False, True],
        "again": 2.0,
    }


def steps(place: Place, fail) -> None:
    """Take steps that communicate; ``fail(rank, step)`` may end one of them."""
    collectives = connect(place, "gloo", CPU)
    for step in range(4):
        HERE.note(stage="fit", epoch=0, step=step)
        fail(place.ranks.rank, step)
        collectives.all_reduce(torch.ones(1))
    disconnect(collectives)


def test_a_failing_rank_is_reported_first():
    def fail(rank: int, step: int) -> None:
        if (rank, step) == (1, 2):
            raise KeyError("label")

    begin = time.monotonic()
    with pytest.raises(dt.RankFailure) as caught:
        launch(lambda place: steps(place, fail), devices=3)
    assert time.monotonic() - begin < 15
    error = caught.value
    lines = str(error).splitlines()
    assert lines[0] == "[rank.failed] rank 1 failed at stage fit, epoch 0, step 2: KeyError: 'label'"
    assert (error.rank, error.where) == (1, "stage fit, epoch 0, step 2")
    assert 'raise KeyError("label")' in error.remote_traceback
    assert isinstance(error.__cause__, KeyError)
    also = next(line for line in lines if line.startswith("also failed"))
    assert also.startswith("also failed, as a consequence: rank")
    assert "0" in also


def test_the_callers_own_failure_keeps_its_type():
    def fail(rank: int, step: int) -> None:
        if (rank, step) == (0, 1):
            raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match=r"^mine$"):
        launch(lambda place: steps(place, fail))


def test_an_error_that_every_rank_raises_is_the_callers():
    def fail(rank: int, step: int) -> None:
        raise LookupError("everywhere")

    with pytest.raises(LookupError, match=r"^everywhere$"):
        launch(lambda place: steps(place, fail))


def test_a_killed_rank_is_named_with_its_signal():
    def fail(rank: int, step: int) -> None:
        if (rank, step) == (1, 2):
            os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(dt.RankFailure, match=r"^\[rank.died\] rank 1 died: killed by SIGKILL") as caught:
        launch(lambda place: steps(place, fail))
    assert "out-of-memory" in str(caught.value)
    assert "was at stage fit, epoch 0, step 2" in str(caught.value)


def test_a_crash_shows_where_the_rank_was():
    def fail(rank: int, step: int) -> None:
        if (rank, step) == (1, 1):
            os.kill(os.getpid(), signal.SIGSEGV)

    with pytest.raises(dt.RankFailure, match=r"^\[rank.died\] rank 1 died: killed by SIGSEGV") as caught:
        launch(lambda place: steps(place, fail))
    assert "in fail" in caught.value.remote_traceback


def test_a_rank_that_leaves_with_zero_has_still_died():
    def fail(rank: int, step: int) -> None:
        if (rank, step) == (1, 1):
            os._exit(0)

    with pytest.raises(dt.RankFailure, match="rank 1 died: exit code 0 before its work was done"):
        launch(lambda place: steps(place, fail))


def test_leaving_alone_is_a_failure_and_leaving_together_is_not(monkeypatch):
    monkeypatch.setattr(watch, "_DOUBT_S", 1)

    def alone(rank: int, step: int) -> None:
        if (rank, step) == (0, 1):
            raise SystemExit(0)

    with pytest.raises(dt.RankFailure, match=r"^\[rank.left\] rank 0 left by sys.exit"):
        launch(lambda place: steps(place, alone))

    def together(rank: int, step: int) -> None:
        if step == 1:
            raise SystemExit(0)

    with pytest.raises(SystemExit) as caught:
        launch(lambda place: steps(place, together))
    assert caught.value.code == 0


def test_ranks_with_fewer_steps_are_named():
    def body(place: Place) -> None:
        collectives = connect(place, "gloo", CPU)
        for step in range(2 - place.ranks.rank):
            HERE.note(step=step)
            collectives.all_reduce(torch.ones(1))

    with pytest.raises(dt.RankFailure, match="rank 1 had ended while rank 0 still communicated at step 1"):
        launch(body)


def test_a_caller_in_a_long_loop_is_interrupted(monkeypatch):
    monkeypatch.setattr(watch, "_STUBBORN_S", 0.5)

    def body(place: Place) -> None:
        if place.ranks.rank == 1:
            raise ValueError("early")
        time.sleep(60)

    before = signal.getsignal(signal.SIGINT)
    for handler in (before, signal.SIG_IGN):  # a shell's "&" and nohup ignore it
        begin = time.monotonic()
        signal.signal(signal.SIGINT, handler)
        try:
            with pytest.raises(dt.RankFailure, match="rank 1 failed: ValueError: early"):
                launch(body)
        finally:
            signal.signal(signal.SIGINT, before)
        assert time.monotonic() - begin < 20

    found = []

    def in_a_thread() -> None:
        try:
            launch(lambda place: body(place) if place.ranks.rank else _spin(60))
        except BaseException as error:  # noqa: BLE001 - looked at below
            found.append(error)

    thread = threading.Thread(target=in_a_thread)
    thread.start()
    thread.join(30)
    assert str(found[0]).startswith("[rank.failed] rank 1 failed: ValueError: early")


def _spin(seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        time.sleep(0.01)


def test_work_that_does_not_pickle_is_named():
    class Trainer:
        callbacks = ()

    trainer = Trainer()
    trainer.callbacks = [Counter(), Counter()]
    trainer.callbacks[1].lock = threading.Lock()
    with pytest.raises(dt.LaunchError, match=r"\[launch.unpicklable\] trainer.callbacks\[1\].lock cannot"):
        launch(lambda place: trainer)


def meet(place: Place) -> None:
    """Wait until the other process is there too; one that left at once would cut its connecting off."""
    collectives = connect(place, "gloo", CPU)
    collectives.barrier()
    disconnect(collectives)


def test_a_world_of_one_and_ctrl_c():
    def body(place: Place):
        collectives = connect(place, "gloo", CPU)
        return collectives.all_gather_object(place.ranks.world_size)

    assert launch(body, devices=1) == [1]

    def interrupted(place: Place) -> None:
        if place.ranks.rank == 0:
            raise KeyboardInterrupt
        time.sleep(60)

    with pytest.raises(KeyboardInterrupt):
        launch(interrupted)


def test_a_hung_rank_is_named_with_its_stack(monkeypatch):
    monkeypatch.setattr(watch, "_DOUBT_S", 1)

    def hangs(place: Place) -> None:
        meet(place)  # however long the other process takes to start
        place.timeout_s = 2
        steps(place, lambda rank, step: time.sleep(100 if (rank, step) == (1, 2) else 0))

    begin = time.monotonic()
    with pytest.raises(dt.RankFailure, match=r"^\[rank.stuck\] rank 1 did not come to an end") as caught:
        launch(hangs)
    assert time.monotonic() - begin < 15
    assert "was at stage fit, epoch 0, step 2" in str(caught.value)
    assert "in hangs" in caught.value.remote_traceback
    assert isinstance(caught.value.__cause__, RuntimeError)

    def ends_late(place: Place) -> None:
        meet(place)
        place.timeout_s = 1
        time.sleep(100 if place.ranks.rank else 0)

    with pytest.raises(dt.RankFailure, match="after rank 0 had ended") as caught:
        launch(ends_late)
    assert "in ends_late" in caught.value.remote_traceback


def test_ctrl_c_twice_gets_out_of_a_collective():
    def fail(rank: int, step: int) -> None:
        if (rank, step) == (1, 2):
            time.sleep(100)
        if (rank, step) == (0, 2):
            for wait_s in (1.0, 1.5):
                threading.Timer(wait_s, os.kill, (os.getpid(), signal.SIGINT)).start()

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's "&" ignores it
    begin = time.monotonic()
    try:
        with pytest.raises(KeyboardInterrupt):
            launch(lambda place: steps(place, fail))
    finally:
        signal.signal(signal.SIGINT, before)
    assert time.monotonic() - begin < 15
