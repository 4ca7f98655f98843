"""Fabric's loops run on the Engine."""

from __future__ import annotations

import copy

import pytest
import torch
from torch.utils.data import DataLoader

import drivetrain as dt
import drivetrain.compat.fabric as ours
from drivetrain.compat import tools
from drivetrain.compat.boring import BoringModel
from drivetrain.compat.fabric import Fabric
from tests.loops.models import data


@pytest.fixture(autouse=True)
def unseeded():
    yield
    tools._SEEDS.clear()


def train(fabric, num_epochs: int = 2) -> list[float]:
    torch.manual_seed(3)
    model = torch.nn.Linear(4, 1)
    model, optimizer = fabric.setup(model, torch.optim.SGD(model.parameters(), lr=0.05))
    loader = fabric.setup_dataloaders(DataLoader(data(24), 4))
    losses = []
    for _ in range(num_epochs):
        for x, y in loader:
            optimizer.zero_grad()
            loss = (model(x) - y).square().mean()
            fabric.backward(loss)
            fabric.clip_gradients(model, optimizer, max_norm=1.0)
            optimizer.step()
            losses.append(float(fabric.all_reduce(loss)))
    return losses


def by_hand(num_epochs: int = 2) -> list[float]:
    torch.manual_seed(3)
    model, losses = torch.nn.Linear(4, 1), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in range(num_epochs):
        for x, y in DataLoader(data(24), 4):
            optimizer.zero_grad()
            loss = (model(x) - y).square().mean()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            losses.append(float(loss.detach()))
    return losses


def test_a_script_without_a_function_is_plain_torch():
    fabric = Fabric(accelerator="cpu", devices=1)
    assert fabric.launch() is None
    assert isinstance(fabric, dt.Engine)
    assert train(fabric) == pytest.approx(by_hand(), rel=1e-6)


def test_a_function_or_run_is_called_with_the_fabric():
    assert Fabric(accelerator="cpu", devices=1).launch(train) == pytest.approx(by_hand(), rel=1e-6)

    class Mine(Fabric):
        def run(self, num_epochs: int) -> list[float]:
            return train(self, num_epochs)

    assert len(Mine(accelerator="cpu", devices=1).run(1)) == 6
    with pytest.raises(dt.EngineError, match="has no run"):
        Fabric(accelerator="cpu", devices=1).run()


def test_other_ranks_need_a_function():
    with pytest.raises(RuntimeError, match=r"engine\.not-launched"):
        Fabric(accelerator="cpu", devices=2).launch()


@pytest.mark.ranks
def test_two_ranks_train_as_one():
    losses = Fabric(accelerator="cpu", devices=2, strategy="ddp", launcher="fork").launch(_two)
    assert losses == [[2, 3], [2, 3]]


def _two(fabric) -> list[list[int]]:
    gathered = fabric.all_gather(torch.tensor([2 + fabric.global_rank]))
    weight = torch.ones(1, requires_grad=True)
    with_gradients = fabric.all_gather(weight * (fabric.global_rank + 1), sync_grads=True)
    with_gradients.sum().backward()
    assert with_gradients.flatten().tolist() == [1.0, 2.0]
    assert float(weight.grad) == 2.0 * (fabric.global_rank + 1)
    assert fabric.broadcast(fabric.global_rank, src=1) == 1
    fabric.barrier("name")
    losses = train(fabric, 1)
    assert len(losses) == 3
    assert fabric.all_gather(torch.tensor(losses)).std(0).max() == 0.0
    return [gathered.flatten().tolist(), [2, 3]]


def test_states_go_to_a_file_and_back(tmp_path):
    fabric = Fabric(accelerator="cpu", devices=1)
    model = torch.nn.Linear(2, 1)
    model, optimizer = fabric.setup(model, torch.optim.SGD(model.parameters(), lr=0.1))
    fabric.save(tmp_path / "a.ckpt", {"model": model, "optimizer": optimizer, "step": 3, "note": "x"})
    before = model.weight.clone()
    with torch.no_grad():
        model.weight.zero_()
    state = {"model": model, "optimizer": optimizer, "step": 0}
    assert fabric.load(tmp_path / "a.ckpt", state) == {"note": "x"}
    assert torch.equal(model.weight, before)
    assert state["step"] == 3
    assert set(fabric.load(tmp_path / "a.ckpt")) >= {"model", "step", "note"}
    only = {"model": lambda name, value: name == "weight"}
    fabric.save(tmp_path / "b.ckpt", {"model": model, "step": 4}, filter=only)
    assert set(fabric.load(tmp_path / "b.ckpt")["model"]) == {"weight"}
    torch.save(model.state_dict(), tmp_path / "raw.pt")
    fabric.load_raw(tmp_path / "raw.pt", model, weights_only=True)


def test_one_ranks_tensors_are_gathered_as_they_are():
    fabric = Fabric(accelerator="cpu", devices=1)
    assert fabric.all_gather({"a": torch.ones(3), "b": 2})["a"].shape == (3,)
    assert fabric.all_gather(2).shape == ()
    assert float(fabric.all_reduce(torch.tensor(4.0), reduce_op="MEAN")) == 4.0


def test_gradients_are_clipped_and_their_norm_returned():
    fabric = Fabric(accelerator="cpu", devices=1)
    one = torch.nn.Linear(1, 1, bias=False)
    model, optimizer = fabric.setup(one, torch.optim.SGD(one.parameters(), lr=0.1))
    one.weight.grad = torch.tensor([[4.0]])
    assert float(fabric.clip_gradients(model, optimizer, max_norm=2.0)) == 4.0
    assert float(one.weight.grad) == pytest.approx(2.0, rel=1e-5)
    assert fabric.clip_gradients(model, optimizer, clip_val=0.5) is None
    assert float(one.weight.grad) == 0.5
    one.weight.grad = torch.tensor([[torch.inf]])
    with pytest.raises(RuntimeError, match="error_if_nonfinite"):
        fabric.clip_gradients(model, optimizer, max_norm=2.0)
    with pytest.raises(dt.EngineError, match="norm_type"):
        fabric.clip_gradients(model, optimizer, max_norm=2.0, norm_type=1)


def test_small_things_users_call():
    fabric = Fabric(accelerator="cpu", devices=1, precision="bf16-mixed")
    assert fabric.seed_everything(5) == 5
    model, scheduler = fabric.setup(torch.nn.Linear(2, 2), scheduler="mine")
    assert scheduler == "mine"
    assert ours.is_wrapped(model)
    assert not ours.is_wrapped(model.module)
    assert fabric.setup_module(torch.nn.Linear(2, 2), move_to_device=True)(torch.ones(1, 2)).shape == (1, 2)
    with fabric.init_module(empty_init=True), fabric.autocast(), fabric.rank_zero_first():
        assert torch.nn.Linear(2, 2).weight.device == fabric.device
    with fabric.no_backward_sync(model, enabled=False):
        fabric.backward(model(torch.ones(1, 2)).sum(), model=model, retain_graph=True)
    assert fabric.to_device({"a": torch.ones(1)})["a"].device == fabric.device
    assert fabric.is_global_zero
    with pytest.raises(TypeError, match="unexpected keyword argument"):
        Fabric(devises=2)


def test_a_lightning_module_knows_the_fabric_it_was_set_up_with(tmp_path):
    class Told:
        rows: list = []  # noqa: RUF012 - one logger in this test

        def log_metrics(self, values, step=None):
            self.rows.append(values)

    fabric, model = Fabric(accelerator="cpu", devices=1, loggers=[Told()]), BoringModel()
    assert model.fabric is None
    fabric.setup(model)
    assert model.fabric is fabric
    model.log("loss", torch.tensor(2.0), prog_bar=True)
    model.log_dict({"a": 1, "b": 2}, logger=False)
    assert Told.rows == [{"loss": 2.0}]
    assert copy.deepcopy(model).fabric is None
