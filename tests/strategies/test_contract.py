"""What every strategy does, on one rank here; tests/ranks trains with several."""

from __future__ import annotations

import pytest
import torch

from drivetrain.accelerators import CPUAccelerator
from drivetrain.checkpoint_io import LocalCheckpointIO
from drivetrain.collectives.place import Place
from drivetrain.precision import MixedPrecision, TruePrecision
from drivetrain.resolver.ranks import Ranks
from drivetrain.strategies.ddp import DDPRuntime
from drivetrain.strategies.fsdp import FSDPRuntime
from drivetrain.strategies.local_sgd import LocalSGDRuntime
from drivetrain.strategies.single import SingleRuntime
from drivetrain.strategies.strategy import Parts, Strategy
from drivetrain.strategies.zero1 import ZeRO1Runtime


@pytest.fixture(params=[SingleRuntime, DDPRuntime, ZeRO1Runtime, LocalSGDRuntime, FSDPRuntime])
def kind(request) -> type[Strategy]:
    return request.param


def make(kind: type[Strategy], precision=None) -> Strategy:
    return kind(
        Parts(
            accelerator=CPUAccelerator(),
            precision=precision or TruePrecision(),
            checkpoint_io=LocalCheckpointIO(),
            place=Place(Ranks()),
            device_id=0,
            layout={"dp_replicate": 1},
            process_group_backend="none",
        )
    )


@pytest.fixture
def strategy(kind):
    made = make(kind)
    made.open()
    yield made
    made.close()


def test_a_step_trains_and_the_module_stays_the_users(strategy: Strategy) -> None:
    module = torch.nn.Linear(2, 1)
    names = list(module.state_dict())
    strategy.setup(module, lambda x: module(x).sum())
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    before = module.weight.detach().clone()

    strategy.backward(strategy.training_step(torch.ones(3, 2)))
    assert module.weight.grad.tolist() == [[3.0, 3.0]]
    assert strategy.unscale(optimizer)
    optimizer.step()

    torch.testing.assert_close(module.weight.detach(), before - 0.3)
    strategy.teardown(module)
    assert list(module.state_dict()) == names


@pytest.mark.parametrize(("algorithm", "expected"), [("norm", [0.6, 0.8]), ("value", [1.0, 1.0])])
def test_gradients_are_clipped(strategy: Strategy, algorithm: str, expected: list[float]) -> None:
    module = torch.nn.Linear(2, 1, bias=False)
    strategy.setup(module, lambda x: module(x).sum(), one_backward=False)
    with strategy.no_sync():
        strategy.backward(strategy.training_step(torch.tensor([[3.0, 4.0]])))
    strategy.combine_gradients(late=True)
    strategy.clip_gradients(torch.optim.SGD(module.parameters(), lr=0.1), 1.0, algorithm)
    torch.testing.assert_close(module.weight.grad, torch.tensor([expected]))


def test_states_go_round(strategy: Strategy) -> None:
    module, twin = torch.nn.Linear(2, 1), torch.nn.Linear(2, 1)
    optimizer = torch.optim.AdamW(module.parameters())
    module(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    other = torch.optim.AdamW(twin.parameters())
    strategy.load_model_state(twin, strategy.model_state(module))
    strategy.load_optimizer_state(other, strategy.optimizer_state(optimizer))
    assert torch.equal(twin.weight, module.weight)
    assert torch.equal(other.state[twin.weight]["exp_avg"], optimizer.state[module.weight]["exp_avg"])


def test_optimizers_stay_the_users_and_alone_there_is_nothing_to_share_out(strategy: Strategy) -> None:
    module = torch.nn.Linear(2, 1)
    strategy.setup(module, module)
    optimizer = torch.optim.AdamW(module.parameters())
    strategy.setup_optimizers([optimizer])
    strategy.backward(strategy.training_step(torch.ones(1, 2)).sum())
    optimizer.step()
    with strategy.own_part(optimizer):
        assert optimizer.param_groups[0]["params"] == [module.weight, module.bias]
    assert strategy.has_whole_model or type(strategy) is FSDPRuntime
    before = strategy.optimizer_state(optimizer)
    strategy.gather_optimizers([optimizer])
    strategy.teardown(module)
    assert str(strategy.optimizer_state(optimizer)) == str(before)
    assert len(before["state"]) == 2


def test_random_state_goes_round_and_one_rank_keeps_its_own(strategy: Strategy) -> None:
    before = torch.get_rng_state()
    strategy.spread_rng()
    assert torch.equal(torch.get_rng_state(), before)
    state = strategy.rng_state()
    first = torch.rand(3)
    strategy.set_rng_state(state)
    assert torch.equal(torch.rand(3), first)


def test_the_precisions_context_is_around_the_steps(kind) -> None:
    strategy = make(kind, MixedPrecision())
    strategy.open()
    module = torch.nn.Linear(2, 1)
    strategy.setup(module, module)
    assert strategy.training_step(torch.ones(1, 2)).dtype is torch.bfloat16
    assert strategy.evaluation_step(module, torch.ones(1, 2)).dtype is torch.bfloat16
    strategy.close()
    strategy.close()


def test_a_save_that_fails_is_raised(strategy: Strategy, tmp_path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Exception, match=r"checkpoint.write"):
        strategy.save({"a": 1}, tmp_path / "file" / "a.ckpt")
