"""A script that imports Lightning runs unmodified, with its workers, on several ranks too."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from drivetrain.compat import running

PART = """
import lightning.pytorch as pl
from lightning.pytorch.demos.boring_classes import BoringModel


class Base(BoringModel):
    def training_step(self, batch, batch_idx):
        import pytorch_lightning

        assert pytorch_lightning is pl
        loss = self.step(batch)
        self.log("loss", loss)
        if self.global_rank == 1:
            self.log("of rank 1", loss)  # each rank logs what it likes without sync_dist
        self.log("both", float(self.global_rank), sync_dist=True)
        return loss
"""

SCRIPT = """
import sys
from pathlib import Path

import lightning as L
import torch
from lightning.pytorch.loggers import CSVLogger
from lightning.pytorch.utilities import rank_zero_only
from part import Base
from torch.utils.data import DataLoader

print("script", __name__, Path(__file__).name, Path(sys.argv[0]).name, sys.argv[1:], flush=True)


class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, index):
        import pytorch_lightning

        return index * int(pytorch_lightning.__version__[0])


@rank_zero_only
def say(*words):
    print(*words, flush=True)


class Model(Base):
    def on_train_end(self):
        strategy = self.trainer.strategy
        here = strategy.broadcast(self.global_rank + 5, 1)
        say("told", here, float(strategy.reduce(torch.tensor(float(self.global_rank)))))


if __name__ == "__main__":
    for strategy in ("ddp", "ddp_spawn"):
        trainer = L.Trainer(
            max_epochs=1,
            limit_train_batches=4,
            limit_val_batches=2,
            log_every_n_steps=1,
            devices=2,
            accelerator="cpu",
            strategy=strategy,
            logger=CSVLogger("."),
            enable_progress_bar=False,
            enable_model_summary=False,
        )
        trainer.fit(Model())
        print("end", trainer.global_step, Path(trainer.checkpoint_callback.best_model_path), flush=True)
        print("logged", sorted(trainer.logged_metrics), float(trainer.logged_metrics["both"]), flush=True)
    loader = DataLoader(Numbers(), 2, num_workers=1, multiprocessing_context="spawn")
    print("loaded", torch.cat([*loader]).tolist())
"""


def run(folder: Path, text: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    (folder / "part.py").write_text(PART)
    (folder / "script.py").write_text(textwrap.dedent(text))
    return subprocess.run(
        [sys.executable, "-m", "drivetrain.compat.lightning", *arguments],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


@pytest.mark.ranks
def test_a_script_runs_on_two_ranks_and_with_workers_that_are_spawned(tmp_path):
    done = run(tmp_path, SCRIPT, "script.py", "--some", "thing")
    assert done.returncode == 0, done.stderr
    out = done.stdout.splitlines()
    # Once by itself; again in the second rank of ddp_spawn, and in the loader's worker.
    asked = [line for line in out if line.startswith("script ")]
    assert len(asked) == 3
    assert asked.count("script __main__ script.py script.py ['--some', 'thing']") == 1
    assert [line for line in out if line.startswith("told")] == ["told 6 0.5"] * 2
    for version in (0, 1):
        path = f"lightning_logs/version_{version}/checkpoints/epoch=0-step=4.ckpt"
        assert f"end 4 {path}" in out
        assert (tmp_path / path).exists()
    assert out.count("logged ['both', 'loss'] 0.5") == 2
    assert out[-1] == "loaded [0, 2, 4, 6]"


def test_a_script_ends_as_it_would_by_itself(tmp_path):
    assert run(tmp_path, "raise SystemExit(7)", "script.py").returncode == 7
    done = run(tmp_path, "import lightning\n\n\ndef wrong():\n    1 / 0\n\n\nwrong()", "script.py")
    assert done.returncode == 1
    assert 'script.py", line 5, in wrong\n    1 / 0' in done.stderr


def test_without_a_script_it_says_how_it_is_called(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert running.main([]) == 2
    assert running.main(["--help"]) == 2
    assert running.main(["nothing.py"]) == 2
    assert "no such file: nothing.py" in capsys.readouterr().err
