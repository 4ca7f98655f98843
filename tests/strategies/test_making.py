from __future__ import annotations

import pytest
import torch

from drivetrain.strategies.making import made_on

CPU, META = torch.device("cpu"), torch.device("meta")


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(200, 200)
        self.norm = torch.nn.BatchNorm1d(200)
        torch.nn.init.trunc_normal_(self.linear.weight)
        self.register_buffer("ones", torch.ones(3))


def test_by_itself_it_makes_what_would_be_made_anyway():
    torch.manual_seed(1)
    plain = Net().state_dict()
    torch.manual_seed(1)
    with made_on(CPU, None, {"dp_replicate": 4}, empty=None):
        made = Net().state_dict()
    assert all(torch.equal(made[name], plain[name]) for name in plain)


def test_the_format_and_the_device_hold_in_the_block_and_end_with_it():
    def fails() -> None:
        with made_on(META, torch.float64, {}, empty=None):
            net = Net()
            assert {one.device.type for one in net.state_dict().values()} == {"meta"}
            assert net.linear.weight.dtype is net.ones.dtype is torch.float64
            raise ArithmeticError

    with pytest.raises(ArithmeticError):
        fails()
    assert torch.ones(1).dtype is torch.float32
    assert torch.ones(1).device.type == "cpu"


def test_empty_parameters_draw_no_random_number_and_buffers_are_filled():
    state = torch.get_rng_state()
    with made_on(CPU, None, {}, empty=True):
        bare = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Conv1d(2, 2, 1), torch.nn.BatchNorm1d(4))
    assert torch.equal(torch.get_rng_state(), state)
    assert bare[2].running_var.tolist() == [1.0] * 4
    assert bare[0].weight.device == CPU
    with torch.no_grad():
        bare[2].weight.fill_(2.0)  # afterwards everything is filled again
    assert bare[2].weight.tolist() == [2.0] * 4


@pytest.mark.parametrize(
    ("layout", "empty", "where"),
    [
        ({"dp_shard": 2}, None, "meta"),
        ({"dp_shard": 2}, True, "meta"),
        ({"dp_shard": 2}, False, "cpu"),
        ({"dp_shard": 1, "tp": 4}, None, "meta"),
        ({"dp_shard": 1}, None, "cpu"),
        ({"dp_replicate": 8}, True, "cpu"),
    ],
)
def test_parameters_that_ranks_will_share_out_take_no_memory(layout, empty, where):
    with made_on(CPU, None, layout, empty=empty):
        assert torch.nn.Linear(2, 2).weight.device.type == where
