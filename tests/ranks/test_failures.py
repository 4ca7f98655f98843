"""A rank that fails inside of a fit is reported first, with its place, as a user sees it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.ranks.scripts import run_script

pytestmark = pytest.mark.ranks

FIT = """
class Net(dt.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)
    def training_step(self, batch, batch_idx):
        if self.global_rank == 1 and batch_idx == 3:
            {failure}
        return self.layer(batch).square().mean()
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)

before = sys.excepthook
loader = torch.utils.data.DataLoader(torch.randn(64, 4), batch_size=4)
try:
    dt.Trainer(devices=2, strategy="ddp", max_epochs=1, enable_progress_bar=False).fit(Net(), loader)
except dt.RankFailure:
    assert sys.excepthook is before
    raise
print("not reached")
"""


def test_the_report_names_rank_and_place_and_the_script_fails(tmp_path: Path) -> None:
    done = run_script(tmp_path, FIT.format(failure="raise ValueError('bad label')"))
    assert done.returncode == 1
    assert "not reached" not in done.stdout
    assert (
        "[rank.failed] rank 1 failed at stage fit, epoch 0, step 3, batch 7: ValueError: bad label"
        in done.stderr
    )
    assert "traceback of rank 1:" in done.stderr
    assert "[rank0]:" not in done.stderr


def test_a_rank_that_dies_is_named_with_its_end(tmp_path: Path) -> None:
    done = run_script(tmp_path, FIT.format(failure="os.kill(os.getpid(), 9)"))
    assert done.returncode == 1
    assert "[rank.died] rank 1" in done.stderr
    assert "SIGKILL" in done.stderr


def test_parameters_without_gradient_are_named_in_the_first_step(tmp_path: Path) -> None:
    """Also in a fit of one step, after which torch would never have noticed."""
    text = FIT.format(failure="pass").replace(
        "self.layer = torch.nn.Linear(4, 1)",
        "self.layer, self.idle = torch.nn.Linear(4, 1), torch.nn.Linear(2, 2)",
    )
    done = run_script(tmp_path, text.replace("max_epochs=1", "max_steps=1"))
    assert done.returncode == 1
    assert (
        "[strategy.unused-parameters] 2 parameters got no gradient in the first step: idle.weight, idle.bias"
        in (done.stderr)
    )
