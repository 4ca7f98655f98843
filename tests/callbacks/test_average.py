from __future__ import annotations

import torch

from drivetrain.callbacks.average import Average


class Layer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(2))
        self.register_buffer("seen", torch.zeros(1), persistent=False)
        self.register_buffer("nothing", None)


def net() -> torch.nn.Module:
    found = torch.nn.Sequential(Layer(), Layer())
    found[1].weight = found[0].weight  # tied
    return found


def fill(module: torch.nn.Module, value: float) -> None:
    with torch.no_grad():
        module[0].weight.fill_(value)
        module[0].seen = torch.full((1,), 10 * value)  # another tensor under the same name


def test_a_mean_is_exchanged_with_the_weights_in_place() -> None:
    module = net()
    weight = module[0].weight
    average = Average(module, None, use_buffers=True)
    for value in (1.0, 3.0):
        fill(module, value)
        average.update()
    assert average.count == 2
    fill(module, 7.0)
    average.swap()
    assert average.is_swapped
    assert module[0].weight is weight
    assert (weight.tolist(), module[0].seen.tolist()) == ([2.0, 2.0], [20.0])
    assert average.state_dict()["tensors"]["0.weight"].tolist() == [2.0, 2.0]
    average.swap()
    assert (weight.tolist(), module[0].seen.tolist()) == ([7.0, 7.0], [70.0])
    assert average.state_dict()["tensors"]["0.weight"].tolist() == [2.0, 2.0]


def test_buffers_are_the_last_ones_unless_they_are_averaged() -> None:
    module = net()
    average = Average(module, None)
    for value in (1.0, 3.0):
        fill(module, value)
        average.update()
    average.swap()
    assert (module[0].weight.tolist(), module[0].seen.tolist()) == ([2.0, 2.0], [30.0])


def test_an_average_goes_on_from_its_state() -> None:
    module, other = net(), net()
    average = Average(module, None, use_buffers=True)
    for value in (1.0, 3.0):
        fill(module, value)
        average.update()
    resumed = Average(other, None, use_buffers=True)
    resumed.load_state_dict(average.state_dict())
    fill(other, 8.0)
    resumed.update()
    assert resumed.state_dict()["tensors"]["0.weight"].tolist() == [4.0, 4.0]
    assert resumed.state_dict()["tensors"]["0.seen"].tolist() == [40.0]
    assert [*resumed.state_dict()["tensors"]] == ["0.weight", "0.seen", "1.seen"]
