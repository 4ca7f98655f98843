from __future__ import annotations

import ast
import json
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import drivetrain as dt
from drivetrain.callbacks import clock
from drivetrain.callbacks import timer as timers
from tests.callbacks.scripted import Scripted, names
from tests.loops.models import Regression, loader, quiet
from tests.ranks.scripts import write_script

pytestmark = pytest.mark.ranks


def two(**kwargs: Any) -> dt.Trainer:
    return quiet(**{"devices": 2, "strategy": "ddp", "log_every_n_steps": 1, **kwargs})


def attributes(callback: Any) -> dict[str, Any]:
    """Return what a callback says of itself, as plain data."""
    found = {}
    for name in (
        "best_model_path",
        "best_k_models",
        "kth_best_model_path",
        "kth_value",
        "current_score",
        "last_model_path",
        "newest_model_path",
        "wait_count",
        "best_score",
        "stopping_reason",
        "stopped_epoch",
        "bad_batches",
    ):
        if hasattr(callback, name):
            found[name] = str(getattr(callback, name))
    return found


class Compare(dt.Callback):
    """Asserts, on every rank, that the callbacks say the same everywhere at each epoch's end and the last."""

    is_last = True

    def __init__(self, *callbacks: dt.Callback) -> None:
        self.callbacks = callbacks
        self.num_compared = 0

    def on_train_epoch_end(self, trainer, module):
        everybody = trainer.collectives.all_gather_object([attributes(one) for one in self.callbacks])
        assert all(found == everybody[0] for found in everybody), everybody
        self.num_compared += len(everybody)

    on_train_end = on_train_epoch_end


class OwnTime(dt.Callback):
    """Gives rank 1 a clock that runs a thousand times faster."""

    def setup(self, trainer, module, stage):
        if trainer.global_rank == 1:
            fast = SimpleNamespace(monotonic=lambda: 1000 * time.monotonic())
            clock.time = timers.time = fast


VAL = [5.0, 3.0, 4.0, 2.0, 2.5, 2.2, 2.1, 1.0]


def made(folder: Path) -> tuple[Any, ...]:
    best = dt.ModelCheckpoint(folder / "best", monitor="val", save_top_k=2, save_last="link")
    waits = dt.ModelCheckpoint(folder / "waits", "{step}", "val", save_top_k=-1, every_n_train_steps=3)
    stops = dt.EarlyStopping("val", patience=3)
    return best, waits, stops


def test_all_ranks_decide_alike_and_a_resumed_run_like_the_uninterrupted_one(tmp_path: Path) -> None:
    """Seven epochs of five steps; the value has not improved for three of them at the last."""
    best, waits, stops = made(tmp_path / "whole")
    compare = Compare(best, waits, stops)
    result = two(max_epochs=8, callbacks=[best, compare, waits, stops]).fit(
        Scripted(val=VAL), loader(), loader(5)
    )
    assert (result.epochs, result.steps, compare.num_compared) == (7, 35, 16)
    assert names(tmp_path / "whole" / "best") == ["epoch=3-step=20.ckpt", "epoch=6-step=35.ckpt", "last.ckpt"]
    assert stops.stopping_reason is dt.EarlyStoppingReason.PATIENCE_EXHAUSTED
    scores = {Path(path).name: float(score) for path, score in waits.best_k_models.items()}
    assert scores == {f"step={5 * epoch + 5}.ckpt": VAL[epoch] for epoch in range(7)}

    first = made(tmp_path / "parts")
    two(max_epochs=3, callbacks=[*first]).fit(Scripted(val=VAL), loader(), loader(5))
    again = made(tmp_path / "parts")
    resumed = two(max_epochs=8, callbacks=[*again]).fit(
        Scripted(val=VAL), loader(), loader(5), ckpt_path=first[0].newest_model_path
    )
    assert (resumed.epochs, resumed.steps_here) == (7, 20)
    for mine, theirs in zip(again, (best, waits, stops), strict=True):
        plain = {name: text.replace("/parts/", "/whole/") for name, text in attributes(mine).items()}
        assert plain == attributes(theirs)
    assert names(tmp_path / "parts" / "best") == names(tmp_path / "whole" / "best")


class Slow(Regression):
    def training_step(self, batch, batch_idx):
        time.sleep(0.02)
        return super().training_step(batch, batch_idx)


def test_rank_0s_clock_decides_when_to_save_and_when_to_stop(tmp_path: Path) -> None:
    """Steps take 20 ms or more; by rank 1's clock everything is over at once."""
    saves = dt.ModelCheckpoint(tmp_path, "{step}", save_top_k=-1, train_time_interval="0.3 s")
    compare, timer = Compare(saves), dt.Timer(dt.Quantity("seconds", 1), verbose=False)
    trainer = two(max_epochs=100, callbacks=[OwnTime(), saves, timer, compare])
    result = trainer.fit(Slow(), loader(160))
    assert result.stopped_early
    assert 1.0 <= timer.time_elapsed() <= 10.0
    assert 1 <= len(names(tmp_path)) <= 4 or timer.time_elapsed() > 2.0
    assert compare.num_compared >= 4


class Jumps(Regression):
    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx)
        return loss * 1e6 if (self.global_rank, self.global_step) == (1, 4) else loss


def test_a_spike_on_one_rank_stops_all_and_is_written_down(tmp_path: Path) -> None:
    spikes = dt.SpikeDetection(rtol=100.0, exclude_batches_path=tmp_path / "skip.json")
    trainer = two(max_epochs=2, callbacks=[spikes])
    with pytest.raises(dt.SpikeError, match=r"callback.spike"):
        trainer.fit(Jumps(), loader())
    (entry,) = json.loads((tmp_path / "skip.json").read_text())
    assert {name: entry[name] for name in ("epoch", "batch_idx", "global_step", "rank")} == {
        "epoch": 0,
        "batch_idx": 4,
        "global_step": 5,
        "rank": 1,
    }


class Fails(Regression):
    def __init__(self, rank: int) -> None:
        super().__init__()
        self.rank = rank

    def training_step(self, batch, batch_idx):
        if (self.global_rank, self.global_step) == (self.rank, 8):
            raise ValueError("bad label")
        return super().training_step(batch, batch_idx)


@pytest.mark.parametrize("rank", [0, 1])
def test_when_one_rank_fails_rank_0_saves_what_it_has_by_itself(tmp_path: Path, capsys, rank: int) -> None:
    lost = dt.OnExceptionCheckpoint(tmp_path)
    saves = dt.ModelCheckpoint(tmp_path / "saved", save_on_exception=True)
    with pytest.raises((ValueError, dt.RankFailure), match="bad label"):
        two(max_epochs=2, callbacks=[lost, saves]).fit(Fails(rank), loader())
    said = [line for line in capsys.readouterr().err.splitlines() if ": saved" in line]
    assert len(said) == 2
    assert all("at step 8: saved" in line and "without the ranks' random state" in line for line in said)
    assert names(tmp_path / "saved") == ["epoch=0-step=5.ckpt", "epoch=1-step=8.ckpt"]
    found = torch.load(lost.ckpt_path, weights_only=True)
    assert (found["global_step"], found["rng"], found["loops"]["fit"]["logged"]) == (8, [], [])

    if rank == 0:
        return
    whole, resumed = Regression(), Regression()
    two(max_epochs=2).fit(whole, loader())
    with pytest.warns(dt.DrivetrainWarning, match=r"checkpoint.inexact"):
        result = two(max_epochs=2).fit(resumed, loader(), ckpt_path=lost.ckpt_path)
    assert (result.steps, result.steps_here, result.samples) == (10, 2, 78)
    for mine, theirs in zip(resumed.parameters(), whole.parameters(), strict=True):
        assert torch.equal(mine, theirs)


SWEEP = """
class Net(dt.Module):
    def __init__(self, number=0):
        super().__init__()
        self.save_hyperparameters()
        self.layer = torch.nn.Linear(2, 1)
    def training_step(self, batch, batch_idx):
        return self.layer(batch).square().mean()
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)

number = int(sys.argv[1])
saves = dt.ModelCheckpoint("shared", "{step}", save_top_k=2, save_last=True, every_n_train_steps=1)
while not os.path.exists("go"):
    time.sleep(0.001)
dt.Trainer(accelerator="cpu", devices=1, max_steps=40, enable_progress_bar=False, callbacks=[saves]).fit(
    Net(number), torch.utils.data.DataLoader(torch.ones(8, 2))
)
for path in (saves.best_model_path, saves.last_model_path):
    found = torch.load(path, weights_only=True)
    assert (found["hyper_parameters"]["number"], found["global_step"]) == (number, 40), path
print(sorted(os.path.basename(path) for path in saves._shelf.files.traces))
"""


def test_runs_that_share_a_folder_at_the_same_time_each_keep_their_own(tmp_path: Path) -> None:
    script = write_script(tmp_path, SWEEP)
    runs = [
        subprocess.Popen(
            [sys.executable, str(script), str(number)],
            cwd=tmp_path,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        for number in range(3)
    ]
    time.sleep(4.0)  # they are about equally far when they begin; nothing depends on it
    (tmp_path / "go").touch()
    outputs = [run.communicate(timeout=120)[0] for run in runs]
    assert [run.returncode for run in runs] == [0, 0, 0], outputs
    kept = [name for output in outputs for name in ast.literal_eval(output.splitlines()[-1])]
    assert len(kept) == len(set(kept)) == 9
    assert names(tmp_path / "shared") == sorted(kept)
