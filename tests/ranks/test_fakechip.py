"""An installed package's hardware, strategy and number format do all that ours do, unknown to us."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.ranks

PACKAGE = Path(__file__).parent.parent / "fakechip"
MODELS = """
import json, os, sys, torch
import drivetrain as dt
from torch.utils.data import DataLoader, TensorDataset

class Net(dt.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(7)
        self.net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)).double()
    def loss(self, batch):
        return ((self.net(batch[0]) - batch[1]) ** 2).mean()
    def training_step(self, batch, batch_idx):
        loss = self.loss(batch)
        self.log("loss", loss, on_epoch=True)
        return loss
    def validation_step(self, batch, batch_idx):
        self.log("val", self.loss(batch))
    test_step = validation_step
    def predict_step(self, batch, batch_idx, dataloader_idx=0):
        return batch[0][:, 0]
    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=0.01)

x = torch.randn(40, 4, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
x[:, 0] = torch.arange(40)
def loader(size=4):
    return DataLoader(TensorDataset(x, x.sum(1, keepdim=True).sin()), size)
def quiet(**flags):
    flags = {"launcher": "fork", **flags} if flags.get("devices", 1) != 1 else flags
    return dt.Trainer(enable_progress_bar=False, enable_model_summary=False, num_sanity_val_steps=0, **flags)
def gap(one, other):
    return max(float((a - b).detach().abs().max()) for a, b in zip(one.parameters(), other.parameters()))
"""
SCRIPT = (
    MODELS
    + """
chip = {"accelerator": "fakechip", "devices": [2, 3]}
found = {}

plan = quiet(devices=2).plan  # nobody says what hardware: the package's is preferred to the processor
found["auto"] = [plan.accelerator, plan.strategy.name, plan.world_size]
plan = quiet(**chip).plan
found["explained"] = [word for word in ("fakechip", "mean") if word in plan.explain()]
for flags in ({"accelerator": "fakechip", "devices": 5}, {"strategy": "meen"}, {"precision": "gridd"}):
    try:
        quiet(**flags)
    except dt.PlanError as error:
        found.setdefault("refused", []).append(str(error).replace("\\n", " "))

reference = Net()
result = quiet(accelerator="cpu", devices=2, max_epochs=2, gradient_clip_val=0.5,
               accumulate_grad_batches=2).fit(reference, loader(), loader())
trained = Net()
trainer = quiet(max_epochs=2, gradient_clip_val=0.5, accumulate_grad_batches=2,
                strategy="mean(rounds=2)", **chip)
mine = trainer.fit(trained, loader(), loader())
found["gap"] = gap(trained, reference)
found["metrics"] = max(abs(mine.metrics[name] - value) for name, value in result.metrics.items())
found["device"] = str(trainer.strategy.device), type(trainer.strategy).__name__

cut = quiet(max_steps=3, **chip)
cut.fit(Net(), loader(), loader())
cut.save_checkpoint("cut.ckpt")
whole, resumed, elsewhere = Net(), Net(), Net()
quiet(max_epochs=2, **chip).fit(whole, loader(), loader())
quiet(max_epochs=2, **chip).fit(resumed, loader(), loader(), ckpt_path="cut.ckpt")
quiet(max_epochs=2, accelerator="cpu", devices=2).fit(elsewhere, loader(), loader(), ckpt_path="cut.ckpt")
found["resumed"] = [gap(resumed, whole), gap(elsewhere, whole)]

tested = [one.test(trained, loader())[0]["val"] for one in (trainer, quiet(accelerator="cpu"))]
found["test"] = abs(tested[0] - tested[1])
found["predicted"] = torch.cat(trainer.predict(trained, loader())).tolist() == list(range(40))

coarse, net = quiet(max_steps=1, precision="grid", **chip), Net()
coarse.fit(net, loader())
found["precision"] = [coarse.plan.precision, str(coarse.precision_report().parameters[0])]
found["on_grid"] = quiet(precision="grid-true", accelerator="fakechip").plan.precision

class Stats(dt.Callback):
    def on_train_end(self, trainer, module):
        found["stats"] = trainer.accelerator.stats(trainer.strategy.device)
quiet(max_epochs=1, callbacks=[Stats(), dt.DeviceStatsMonitor()], logger=True, **chip).fit(Net(), loader())

def forward(engine):
    torch.manual_seed(1)
    model = torch.nn.Linear(4, 1).double()
    module, optimizer = engine.setup(model, torch.optim.SGD(model.parameters(), lr=0.1))
    for x, y in engine.setup_dataloaders(loader()):
        optimizer.zero_grad()
        engine.backward(((module(x) - y) ** 2).mean())
        optimizer.step()
    return [one.detach().tolist() for one in model.parameters()]
flags = (chip, {"accelerator": "cpu", "devices": 2})
sums = [dt.Engine(launcher="fork", **each).launch(forward) for each in flags]
found["engine"] = sums[0] == sums[1]

from drivetrain.compat.lightning import Trainer
old = Trainer(accelerator="fakechip", devices=2, max_epochs=1, logger=False, enable_checkpointing=False,
              enable_progress_bar=False, enable_model_summary=False)
found["mirror"] = [old.plan.strategy.name, old.plan.accelerator]

net = Net()  # the second rank is a fresh process, which finds the package by its entry points
quiet(max_epochs=2, gradient_clip_val=0.5, accumulate_grad_batches=2, launcher="subprocess", **chip).fit(
    net, loader(), loader()
)
found["fresh"] = gap(net, reference)
print("FOUND" + json.dumps(found))
"""
)
EXTERNAL = (
    MODELS
    + """
net = Net()
trainer = dt.Trainer(accelerator="fakechip", devices=2, max_epochs=2, enable_progress_bar=False,
                     enable_model_summary=False)
trainer.fit(net, loader())
if trainer.is_global_zero:
    print("FOUND" + json.dumps([trainer.plan.environment, trainer.plan.strategy.name, trainer.global_step]))
"""
)


def run(folder: Path, text: str, *command: str) -> subprocess.CompletedProcess[str]:
    path = folder / "script.py"
    path.write_text(text)
    variables = {**os.environ, "OMP_NUM_THREADS": "1", "FAKECHIPS": "4", "PYTHONPATH": str(PACKAGE)}
    words = [sys.executable, *command, str(path)]
    return subprocess.run(
        words, cwd=folder, env=variables, capture_output=True, text=True, timeout=200, check=False
    )


def found(done: subprocess.CompletedProcess[str]):
    lines = [line for line in done.stdout.splitlines() if line.startswith("FOUND")]
    assert lines, done.stdout[-2000:] + done.stderr[-4000:]
    return json.loads(lines[-1].removeprefix("FOUND"))


def test_everything_works_with_it(tmp_path: Path) -> None:
    seen = found(run(tmp_path, SCRIPT))
    assert seen["auto"] == ["fakechip", "mean", 2]
    assert seen["explained"] == ["fakechip", "mean"]
    devices, strategy, precision = seen["refused"]
    assert "fakechip" in devices
    assert "4" in devices
    assert "the nearest is 'mean'" in strategy
    assert "pass precision='grid'" in precision
    assert seen["gap"] < 1e-12  # sums in another order
    assert seen["metrics"] < 1e-12
    assert seen["device"] == ["cpu", "MeanRuntime"]
    assert seen["resumed"][0] == 0.0
    assert seen["resumed"][1] < 1e-12
    assert seen["test"] < 1e-12
    assert seen["predicted"]
    assert seen["precision"] == ["grid", "torch.float64"]
    assert seen["on_grid"] == "grid"
    assert seen["stats"]["chip.moved"] >= 5
    assert seen["engine"]
    assert seen["mirror"] == ["mean", "fakechip"]
    assert seen["fresh"] < 1e-12


def test_torchrun_starts_it_too_and_the_command_line_knows_it(tmp_path: Path) -> None:
    done = run(tmp_path, EXTERNAL, "-m", "torch.distributed.run", "--nproc-per-node=2", "--standalone")
    assert found(done) == ["torchrun", "mean", 10]
    variables = {**os.environ, "FAKECHIPS": "4", "PYTHONPATH": str(PACKAGE)}
    words = [sys.executable, "-m", "drivetrain", "plan", "--accelerator", "fakechip", "--devices", "3"]
    said = subprocess.run(words, env=variables, capture_output=True, text=True, timeout=60, check=False)
    assert said.returncode == 0, said.stderr
    assert "mean" in said.stdout
