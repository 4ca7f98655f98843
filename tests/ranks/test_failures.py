"""A rank that fails inside of a fit is reported first, with its place, as a user sees it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import drivetrain as dt
from drivetrain.collectives.connect import connect
from drivetrain.collectives.place import Place
from drivetrain.resolver.ranks import Ranks
from tests.loops.models import Regression, loader, quiet
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


def test_after_a_process_group_that_could_not_be_made_the_next_run_works() -> None:
    for backend, error in (("smoke_signals", dt.LaunchError), (None, None)):
        said = f"process_group_backend={backend}," if backend else ""
        trainer = quiet(devices=2, strategy=f"ddp({said}timeout_s=20)", max_steps=2)
        if error is None:
            assert trainer.fit(Regression(), loader(16)).steps == 2
            continue
        with pytest.raises((error, dt.RankFailure), match=r"launch.no-backend"):
            trainer.fit(Regression(), loader(16))


def test_a_group_that_torch_named_and_could_not_make_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        torch.distributed.distributed_c10d._world.group_count += 1
        raise RuntimeError("no such device")

    with monkeypatch.context() as patch:
        patch.setattr(torch.distributed, "init_process_group", fails)
        with pytest.raises(RuntimeError, match="no such device"):
            connect(Place(Ranks()), "gloo", torch.device("cpu"))
    assert torch.distributed.distributed_c10d._world.group_count == 0
