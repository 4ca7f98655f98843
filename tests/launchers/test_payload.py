"""What travels, and how what does not is named."""

from __future__ import annotations

import functools
import threading

import pytest
import torch

import drivetrain as dt
from drivetrain.launchers.payload import pack, unpack
from drivetrain.launchers.unpicklable import find_unpicklable


class Thing:
    def __init__(self, **parts) -> None:
        vars(self).update(parts)

    def method(self) -> None: ...


class Guarded(Thing):
    def __getstate__(self) -> dict:
        return {name: part for name, part in vars(self).items() if name != "lock"}


def closure():
    trainer = Thing(callbacks=[Thing(), Thing(lock=threading.Lock())])
    return lambda place: trainer


def default():
    def body(place, trainer=Thing(lock=threading.Lock())): ...  # noqa: B008 - that is the case

    return body


def module():
    model = torch.nn.Sequential(torch.nn.Linear(1, 1), torch.nn.ReLU())
    model[1].lock = threading.Lock()
    return functools.partial(print, model=model)


@pytest.mark.parametrize(
    ("work", "path"),
    [
        (closure(), "trainer.callbacks[1].lock"),
        (default(), "trainer.lock"),
        (module(), "model.1.lock"),
        (Thing(lock=threading.Lock()).method, "lock"),
        (functools.partial(Thing.method, Thing(table={"a": {3: threading.Lock()}})), "self.table['a'][3]"),
        ([Guarded(lock=threading.Lock()), Thing(file=(i for i in ()))], "[1].file"),
    ],
)
def test_the_path_to_what_does_not_pickle_is_named(work, path):
    assert find_unpicklable(work)[0] == path
    with pytest.raises(dt.LaunchError, match=r"\[launch.unpicklable\]") as caught:
        pack(work)
    assert caught.value.message.startswith(f"{path} cannot be sent")


def test_cycles_and_hostile_objects_end_the_search():
    class HostileThing:
        def __reduce_ex__(self, protocol):
            raise ValueError("no")

        def __getstate__(self):
            raise ValueError("no")

    ring = Thing(part=HostileThing())
    ring.itself = ring
    assert find_unpicklable(ring)[0] == "part"


def test_work_comes_back_with_the_lines_of_its_file():
    model = torch.nn.Linear(2, 2)
    body = unpack(pack(lambda: model))
    assert torch.equal(body().weight, model.weight)
    assert body.__code__.co_filename == __file__
