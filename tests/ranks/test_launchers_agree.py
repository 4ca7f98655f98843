"""Whoever starts the two ranks, the same fit gives the same numbers: bit for bit."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.ranks.scripts import run_script

pytestmark = [pytest.mark.ranks, pytest.mark.slow]

SCRIPT = """
class Net(dt.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.2), torch.nn.Linear(8, 1))
    def training_step(self, batch, batch_idx):
        return (self.net(batch) - batch.sum(1, keepdim=True)).square().mean()
    def test_step(self, batch, batch_idx):
        self.log("test", self.net(batch).mean())
    def predict_step(self, batch, batch_idx):
        return batch[:, 0]
    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=0.05)

if __name__ == "__main__":
    torch.manual_seed(0)
    data = torch.arange(44.0).reshape(11, 4) / 44
    loader = torch.utils.data.DataLoader(data, batch_size=2, shuffle=True)
    trainer = dt.Trainer(
        accelerator="cpu", devices=2, strategy="ddp", max_epochs=3, enable_progress_bar=False{launcher}
    )
    model = Net()
    trainer.fit(model, loader)
    if trainer.is_global_zero:
        print("RESULT", [p.tolist() for p in model.parameters()])
    if trainer.plan.launcher in ("subprocess", "fork", "external"):
        tested = trainer.test(model, torch.utils.data.DataLoader(data, batch_size=2))
        sys.stdout.write(f"TESTED {tested}\\n")  # one write, so that ranks' lines do not mix
        predicted = trainer.predict(model, torch.utils.data.DataLoader(data, batch_size=2))
        assert torch.equal(torch.cat(predicted), data[:, 0])
"""


TESTED: set[str] = set()
"""What the runs printed of their tests; one line where all agree."""


def result(folder: Path, launcher: str, *command: str) -> str:
    done = run_script(folder, SCRIPT.replace("{launcher}", launcher), *command)
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("RESULT")]
    tested = {line for line in done.stdout.splitlines() if line.startswith("TESTED")}
    TESTED.update(tested)
    return line


def test_launchers_agree(tmp_path: Path) -> None:
    expected = result(tmp_path, "")
    for launcher in ("spawn", "forkserver", "fork"):
        assert result(tmp_path, f', launcher="{launcher}"') == expected, launcher
    torchrun = ("-m", "torch.distributed.run", "--nproc-per-node", "2")
    assert result(tmp_path, "", *torchrun) == expected
    assert len(TESTED) == 1
