from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

import drivetrain as dt
from tests.loops.models import Noisy, data, loader


def engine(**flags: Any) -> dt.Engine:
    return dt.Engine(**{"accelerator": "cpu", "devices": 1, **flags})


def net(seed: int = 7) -> torch.nn.Module:
    torch.manual_seed(seed)
    return torch.nn.Sequential(
        torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Dropout(0.2), torch.nn.Linear(8, 1)
    )


def test_a_loop_of_ones_own_equals_a_loop_of_torch_alone() -> None:
    one, other, made = net().eval(), net().eval(), engine()
    optimizer, reference = (torch.optim.AdamW(module.parameters(), lr=0.01) for module in (one, other))
    ready, optimizer = made.setup(one, optimizer)
    for x, y in made.setup_dataloaders(loader(39)):
        optimizer.zero_grad()
        made.backward(((ready(x) - y) ** 2).mean())
        made.clip_gradients(ready, optimizer, max_norm=0.5)
        optimizer.step()
    for x, y in loader(39):
        reference.zero_grad()
        ((other(x) - y) ** 2).mean().backward()
        torch.nn.utils.clip_grad_norm_(other.parameters(), 0.5)
        reference.step()
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))
    assert list(ready.state_dict()) == list(one.state_dict())
    assert [name for name, _ in ready.named_parameters()] == [name for name, _ in one.named_parameters()]
    assert ready.module is one


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 1)
        self.kept = "kept"

    def forward(self, x):
        return self.linear(x)

    def loss(self, x):
        assert x.dtype == torch.float64
        return self.linear(x).sum()


def test_a_method_can_pass_through_the_strategy() -> None:
    ready = engine(precision="64-true").setup_module(Model())
    assert ready.kept == "kept"
    with pytest.raises(AssertionError):
        ready.loss(torch.ones(1, 4))
    ready.mark_forward_method("loss")
    ready.loss(torch.ones(1, 4)).backward()
    assert ready.linear.weight.grad.dtype == torch.float64
    with pytest.raises(dt.EngineError, match=r"engine.not-a-method"):
        ready.mark_forward_method("generate")
    with pytest.raises(AttributeError):
        ready.nothing  # noqa: B018 - it is not there


def test_a_saved_loop_goes_on_exactly_in_the_middle_of_an_epoch(tmp_path: Path) -> None:
    def run(until: int, start: Path | None, save_at: int | None) -> tuple[list[float], torch.nn.Module]:
        torch.manual_seed(3)
        made, module = engine(), net()
        module, optimizer = made.setup(module, torch.optim.AdamW(module.parameters(), lr=0.01))
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 3)
        batches = made.setup_dataloaders(DataLoader(Noisy(), 4, shuffle=True))
        state: dict[str, Any] = {
            "module": module,
            "optimizer": optimizer,
            "extra": {"scheduler": scheduler},
            "batches": batches,
            "step": 0,
        }
        if start is not None:
            state = made.load(start, state)
        losses, step = [], state["step"]
        while step < until:
            for x, y in batches:
                optimizer.zero_grad()
                loss = ((module(x) - y) ** 2).mean()
                made.backward(loss)
                optimizer.step()
                scheduler.step()
                losses.append(loss.item())
                step += 1
                if step == save_at:
                    made.save(tmp_path / "a.ckpt", {**state, "step": step})
                if step == until:
                    break
        return losses, module.module

    whole, module = run(30, None, 17)
    rest, resumed = run(30, tmp_path / "a.ckpt", None)
    assert rest == whole[17:]
    assert all(torch.equal(a, b) for a, b in zip(module.parameters(), resumed.parameters(), strict=True))
    with pytest.raises(dt.CheckpointError, match=r"checkpoint.mismatch.*has no 'other'"):
        engine().load(tmp_path / "a.ckpt", {"other": 1})
    assert engine().load(tmp_path / "a.ckpt", {"other": 1}, strict=False)["other"] == 1
    torch.save(net(8).state_dict(), tmp_path / "bare.pt")
    ready = engine().setup_module(net())
    engine().load_raw(tmp_path / "bare.pt", ready)
    assert torch.equal(ready.module[0].weight, net(8)[0].weight)


def test_what_is_asked_for_outside_of_launch_says_so() -> None:
    with pytest.raises(dt.EngineError, match=r"engine.not-launched[\s\S]*engine.launch\(main\)"):
        engine(devices=2, strategy="ddp").setup_module(net())
    made = engine()
    for given in ({}, {"clip_val": 1.0, "max_norm": 1.0}):
        with pytest.raises(dt.EngineError, match=r"engine.clip-value"):
            made.clip_gradients(net(), torch.optim.SGD(net().parameters()), **given)
    assert (made.world_size, made.global_rank, made.local_rank, made.node_rank) == (1, 0, 0, 0)
    assert made.is_global_zero
    assert made.seed_everything(3) == 3
    with pytest.raises(dt.DataError, match=r"data.seed"):
        dt.seed_everything(-1)


class Writes:
    def __init__(self) -> None:
        self.rows: list[Any] = []

    def log_metrics(self, metrics, step=None):
        self.rows.append((metrics, step))

    def on_step(self, number):
        self.rows.append(number)


def test_callbacks_are_called_and_loggers_written_to(capsys: pytest.CaptureFixture[str]) -> None:
    writes = Writes()
    made = engine(callbacks=[writes, object()], loggers=writes)
    made.call("on_step", 3)
    made.log("loss", torch.tensor(0.5), step=7)
    made.print("hello", end="")
    assert writes.rows == [3, ({"loss": 0.5}, 7)]
    assert capsys.readouterr().out == "hello"


def two_ranks(made: dt.Engine, writes: Writes) -> dict[str, Any]:
    """A GAN-like loop on every rank: two modules, accumulation, and every collective."""
    first, second = net().eval(), net().eval()
    one, slow = made.setup(first, torch.optim.AdamW(first.parameters(), lr=0.01))
    two, fast = made.setup(second, torch.optim.SGD(second.parameters(), lr=0.1))
    batches = made.setup_dataloaders(loader(35))
    for index, (x, y) in enumerate(batches):
        fast.zero_grad()
        made.backward(((two(x) - y) ** 2).mean())
        fast.step()
        with made.no_backward_sync(one, enabled=index % 2 == 0):
            made.backward(((one(x) - y) ** 2).mean() / 2)
        if index % 2:
            slow.step()
            slow.zero_grad()
    rank = made.global_rank
    with made.rank_zero_first():
        pass
    seen = [x[:, 0].tolist() for x, _ in made.setup_dataloaders(loader(10, 3), evaluation=True)]
    writes.rows.append(rank)
    return {
        "weights": [first[0].weight.detach().clone(), second[0].weight.detach().clone()],
        "length": len(batches),
        "gathered": made.all_gather({"a": torch.tensor([float(rank)])})["a"].tolist(),
        "reduced": [made.all_reduce(float(rank), op).item() for op in ("mean", "sum", "max")],
        "broadcast": made.broadcast({"from": rank}, src=1),
        "seen": made.strategy.collectives.all_gather_object(seen),
    }


@pytest.mark.ranks
def test_two_modules_train_on_two_ranks_and_the_caller_keeps_its_objects() -> None:
    writes = Writes()
    made = engine(devices=2, strategy="ddp", launcher="fork")
    for _ in range(2):
        found = made.launch(two_ranks, writes)
    assert writes.rows == [0, 0]
    first, second = net().eval(), net().eval()
    slow, fast = torch.optim.AdamW(first.parameters(), lr=0.01), torch.optim.SGD(second.parameters(), lr=0.1)
    for index in range(5):
        x, y = data(35)[list(range(8 * index, min(8 * index + 8, 35)))]
        fast.zero_grad()
        ((second(x) - y) ** 2).mean().backward()
        fast.step()
        (((first(x) - y) ** 2).mean() / 2).backward()
        if index % 2:
            slow.step()
            slow.zero_grad()
    for mine, theirs in zip(found["weights"], (first[0].weight, second[0].weight), strict=True):
        torch.testing.assert_close(mine, theirs.detach(), atol=1e-6, rtol=0)
    assert found["length"] == 5
    assert found["gathered"] == [[0.0], [1.0]]
    assert found["reduced"] == [0.5, 1.0, 1.0]
    assert found["broadcast"] == {"from": 1}
    assert [len(batch) for rank in found["seen"] for batch in rank] == [3, 3, 3, 1]


def test_mixed_precision_gives_float32_to_the_loop() -> None:
    engine = dt.Engine(accelerator="cpu", devices=1, precision="bf16-mixed")

    def loop(engine: dt.Engine) -> tuple[torch.dtype, torch.dtype]:
        module = engine.setup(torch.nn.Linear(4, 1))
        trained = module(torch.ones(2, 4))
        with torch.no_grad():
            return trained.dtype, module(torch.ones(2, 4)).dtype

    assert engine.launch(loop) == (torch.float32, torch.float32)


def left_early(made: dt.Engine) -> list[float]:
    batches, firsts = made.setup_dataloaders(loader(16, 2)), []
    for _ in range(2):
        for number, (x, _) in enumerate(batches):
            firsts.append(float(x[0, 0]) * 16)
            if number == 1:
                break
    kept = batches.state_dict()
    batches.load_state_dict(kept)
    return [*firsts, *(float(x[0, 0]) * 16 for x, _ in batches)]


@pytest.mark.ranks
def test_an_epoch_that_was_left_early_is_over_and_one_that_is_loaded_goes_on() -> None:
    assert left_early(engine()) == [0, 2, 0, 2, 4, 6, 8, 10, 12, 14]
    assert engine(devices=2, strategy="ddp", launcher="fork").launch(left_early) == [0, 4, 0, 4, 8, 12]


def side_by_side(made: dt.Engine, one: Any, two: Any) -> torch.Tensor:
    model = net(0).double().eval()
    model = made.setup(model)
    for (x, _), (z, _) in zip(*made.setup_dataloaders(one, two), strict=True):
        made.backward(model(x.double()).mean() + model(z.double()).mean())
    return model.module[0].weight.grad


@pytest.mark.ranks
def test_two_loaders_that_count_alike_give_their_weight_and_others_are_refused() -> None:
    made = engine(devices=2, strategy="ddp", launcher="fork")
    grad = made.launch(side_by_side, loader(11, 2), loader(11, 2))  # the last step has 2 samples, and 1
    model = net(0).double().eval()
    for step in ([0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10]):
        (model(data(11)[step][0].double()).mean() * 2).backward()
    torch.testing.assert_close(grad, model[0].weight.grad)
    with pytest.raises(dt.EngineError, match=r"engine.weights"):
        made.launch(side_by_side, loader(11, 2), loader(6, 1))


@pytest.mark.ranks
def test_tensors_that_differ_over_ranks_are_not_gathered() -> None:
    made = engine(devices=2, strategy="ddp", launcher="fork")
    with pytest.raises(dt.CollectiveError, match=r"collectives.shapes[\s\S]*rank 1 = '\[2\] float32'"):
        made.launch(lambda one: one.all_gather({"a": torch.ones(one.global_rank + 1)}))
    with pytest.raises(dt.CollectiveError, match=r"collectives.shapes\] all_reduce of tensors that differ"):
        made.launch(lambda one: one.all_reduce(torch.ones(one.global_rank + 1)))
    with pytest.raises(dt.CollectiveError, match=r"collectives.shapes\] ranks cannot put a str together"):
        made.launch(lambda one: one.all_gather({"a": "text"}))
