"""What a script may take for granted around its fits: nothing stays behind, and the next call works."""

from __future__ import annotations

import gc
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import torch

import drivetrain as dt
from drivetrain.launchers import watch
from tests.loops.models import Regression, loader, quiet
from tests.ranks.scripts import children, run_script

pytestmark = pytest.mark.ranks


def surroundings() -> dict[str, Any]:
    """Return what a fit finds, and has to leave."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGCHLD, signal.SIGURG)
    return {
        "variables": dict(os.environ),
        "handlers": [signal.getsignal(number) for number in numbers],
        "folder": Path.cwd(),
        "threads": threading.active_count(),
        "children": children(),
        "files": len([*Path("/proc/self/fd").iterdir()]),
        "connected": torch.distributed.is_initialized(),
    }


def memory_mb() -> float:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def test_fits_leave_no_variable_process_thread_file_or_memory_behind() -> None:
    def fit() -> None:
        quiet(devices=2, strategy="ddp", max_epochs=1).fit(Regression(), loader(8), loader(8))

    for _ in range(3):
        fit()  # torch sets a variable, opens files and takes memory when it is first used
    before, memory = surroundings(), memory_mb()
    for _ in range(10):
        fit()
    assert surroundings() == before
    assert memory_mb() - memory < 5


def test_one_script_fits_on_two_tests_on_one_and_goes_on() -> None:
    trainer = quiet(devices=2, strategy="ddp", max_epochs=1)
    module, five = Regression(), loader(5, 2)
    for _ in range(2):
        assert trainer.fit(module, loader(39)).steps == 5
        alone = trainer.test(module, five, devices=1, strategy="single")
        assert alone[0]["count"] == pytest.approx((2 * 2 + 2 * 2 + 1 * 1) / 5)
        assert trainer.test(module, five)[0]["test"] == pytest.approx(alone[0]["test"], abs=1e-7)


class LateData(Regression):
    """Is slow to make its data, on one rank."""

    def train_dataloader(self) -> Any:
        time.sleep(60 * self.global_rank)
        return loader(8)


def test_a_rank_that_is_stuck_while_it_makes_its_data_is_named_with_the_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(watch, "_DOUBT_S", 1)
    begin = time.monotonic()
    with pytest.raises(dt.RankFailure, match=r"^\[rank.stuck\] rank 1 did not come to an end") as caught:
        quiet(devices=2, strategy="ddp(timeout_s=2)", max_epochs=1).fit(LateData())
    assert time.monotonic() - begin < 20
    assert "in train_dataloader" in caught.value.remote_traceback


def test_a_stray_variable_of_a_launcher_starts_no_wait(tmp_path: Path) -> None:
    """Cloud images set them; nobody else has started a rank."""
    done = run_script(
        tmp_path,
        """
        class Net(dt.Module):
            def __init__(self):
                super().__init__()
                self.layer = torch.nn.Linear(4, 1)
            def training_step(self, batch, batch_idx):
                return self.layer(batch).square().mean()
            def configure_optimizers(self):
                return torch.optim.SGD(self.parameters(), lr=0.1)

        for stray in ({"LOCAL_RANK": "0"}, {"RANK": "0", "LOCAL_RANK": "1"}, {"WORLD_SIZE": "2"}):
            os.environ.update(stray)
            trainer = dt.Trainer(accelerator="cpu", devices=2, max_epochs=1, enable_progress_bar=False)
            why = trainer.plan.sources["environment"].reason
            assert "alone say nothing" in why and all(name in why for name in stray), why
            result = trainer.fit(Net(), torch.utils.data.DataLoader(torch.randn(16, 4), batch_size=4))
            print("steps", result.steps, [os.environ.pop(name) for name in stray] == [*stray.values()])
        """,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "steps 2 True\n" * 3
