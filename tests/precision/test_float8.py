from __future__ import annotations

import copy

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import drivetrain as dt
from drivetrain.precision.float8 import Float8Precision
from tests.loops.models import quiet

torchao = pytest.importorskip("torchao.float8")

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")


class Net(dt.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.body = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.Tanh(), torch.nn.Linear(64, 32))
        self.last = self.body[2]  # the same layer under a second name
        self.head = torch.nn.Linear(32, 1)

    def training_step(self, batch, batch_idx):
        return (self.head(torch.tanh(self.body(batch[0]))) - batch[1]).float().square().mean()

    def predict_step(self, batch, batch_idx, dataloader_idx=0):
        return self.body(batch[0])

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)


def batches(size: int = 8) -> DataLoader:
    x = torch.randn(64, 32, generator=torch.Generator().manual_seed(5))
    return DataLoader(TensorDataset(x, x.sum(1, keepdim=True).sin()), size)


def by_hand(recipe: str) -> Net:
    """Train in torchao's own way, without drivetrain."""
    net = Net()
    config = torchao.Float8LinearConfig.from_recipe_name(recipe)
    body = torchao.convert_to_float8_training(net.body, config=config)
    # Under the CPU's autocast torchao's own layer would leave the first input in float32.
    body[0].register_forward_pre_hook(lambda _, inputs: (inputs[0].bfloat16(),))
    optimizer = torch.optim.SGD([*body.parameters(), *net.head.parameters()], lr=0.1, momentum=0.9)
    for x, y in batches():
        with torch.autocast("cpu", torch.bfloat16):
            loss = (net.head(torch.tanh(body(x))) - y).float().square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return net


@pytest.mark.parametrize("recipe", ["tensorwise", "rowwise"])
def test_it_computes_what_torchao_does_and_leaves_plain_layers(recipe: str) -> None:
    net, seen = Net(), []
    layers = list(net.modules())
    net.body[0].register_forward_hook(lambda layer, _, out: seen.append((type(layer).__name__, out.dtype)))
    trainer = quiet(max_epochs=1, plugins=[Float8Precision(recipe=recipe)])
    assert trainer.plan.precision == "fp8"
    trainer.fit(net, batches())
    assert set(seen) == {("Float8Layer", torch.bfloat16)}
    assert [*map(type, net.modules())] == [*map(type, Net().modules())]
    assert list(net.modules()) == layers
    assert net.last is net.body[2]
    assert vars(net.body[0]).keys() == vars(torch.nn.Linear(1, 1)).keys()
    want = by_hand(recipe)
    for mine, theirs in zip(net.parameters(), want.parameters(), strict=True):
        assert torch.equal(mine, theirs)
    shorter = Net()
    quiet(max_epochs=1, precision="bf16-mixed").fit(shorter, batches())
    gap = max(
        float((a - b).detach().abs().max())
        for a, b in zip(net.parameters(), shorter.parameters(), strict=True)
    )
    assert 1e-4 < gap < 0.05  # float8 it was, and near
    report = trainer.precision_report()
    assert report.converted == ("body.0", "body.2")  # the head has one output, which no block has
    assert "converted  body.0, body.2" in str(report)
    assert (report.parameters, report.gradients) == ((torch.float32,), (torch.float32,))


def test_layers_that_are_skipped_stay_in_bfloat16() -> None:
    trainer = quiet(max_steps=1, plugins=[Float8Precision(skip=["*.2"])])
    trainer.fit(Net(), batches())
    assert trainer.precision_report().converted == ("body.0",)
    with pytest.raises(dt.TrainerError, match=r"skip='heads'.*\n.*\n.*body.0, body.2, head"):
        quiet(max_steps=1, plugins=[Float8Precision(skip=["heads"])]).fit(Net(), batches())


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"recipe": "columnwise"}, "recipe is one of: tensorwise, rowwise"),
        ({"skip": "head"}, r"pass skip=\['head'\]"),
        ({"name": "fp4"}, "leave name out"),
    ],
)
def test_options_that_are_none(options: dict, says: str) -> None:
    with pytest.raises(dt.TrainerError, match=says):
        Float8Precision(**options)


def test_a_checkpoint_is_that_of_any_format(tmp_path) -> None:
    whole, cut = Net(), Net()
    quiet(max_epochs=2, precision="fp8").fit(whole, batches())
    first = quiet(max_steps=5, precision="fp8")
    first.fit(cut, batches())
    first.save_checkpoint(tmp_path / "a.ckpt")
    resumed = Net()
    quiet(max_epochs=2, precision="fp8").fit(resumed, batches(), ckpt_path=tmp_path / "a.ckpt")
    for mine, theirs in zip(resumed.parameters(), whole.parameters(), strict=True):
        assert torch.equal(mine, theirs)
    quiet(max_epochs=2).fit(copy.deepcopy(resumed), batches(), ckpt_path=tmp_path / "a.ckpt")


def test_predictions_are_in_float8_too() -> None:
    net = Net()
    found = torch.cat([*quiet(precision="fp8").predict(net, batches())])
    plain = torch.cat([net.body(x).detach() for x, _ in batches()])
    assert 1e-3 < float((found - plain).abs().max()) < 0.2
    assert type(net.body[0]) is torch.nn.Linear


def test_an_older_device_is_refused(monkeypatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda *_: (8, 0))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda *_: "A100")
    with pytest.raises(dt.BuildError, match=r"build.device-lacks\] A100"):
        Float8Precision().setup(torch.device("cuda", 0))
    Float8Precision(emulate=True).setup(torch.device("cuda", 0))


@pytest.mark.ranks
def test_two_ranks_take_the_steps_of_one() -> None:
    alone, shared = Net(), Net()
    quiet(max_epochs=2, precision="fp8").fit(alone, batches(8))
    trainer = quiet(max_epochs=2, devices=2, precision="fp8")
    trainer.fit(shared, batches(4))
    assert trainer.precision_report().converted == ("body.0", "body.2")
    gap = max(
        float((a - b).detach().abs().max())
        for a, b in zip(alone.parameters(), shared.parameters(), strict=True)
    )
    assert gap < 0.05  # each rank scales its own batch to fill the format, as by less than that float8 is off
