"""Two ranks save by a thread of rank 0; what fails there is raised on both, and nobody waits for ever."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import drivetrain as dt
from tests.callbacks.scripted import names
from tests.loops.models import Regression, loader, quiet

pytestmark = pytest.mark.ranks


class Failing(dt.WrappingCheckpointIO):
    """Fails to write what is named so."""

    def save(self, checkpoint: dict[str, Any], path: Any) -> None:
        if "epoch=2" in str(path):
            raise dt.CheckpointError("checkpoint.write", f"no room for {Path(path).name}")
        super().save(checkpoint, path)


class Told(dt.Callback):
    """Notes on each rank what the fit stopped with."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def on_exception(self, trainer, module, exception):
        (self.folder / f"rank{trainer.global_rank}").write_text(str(exception))


def test_two_ranks_save_by_a_thread(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    saves, told = dt.ModelCheckpoint(kept, save_top_k=1), Told(tmp_path)
    settings = {"devices": 2, "strategy": "ddp", "callbacks": [saves, told]}
    trainer = quiet(max_epochs=4, plugins=[dt.AsyncCheckpointIO(Failing())], **settings)
    with pytest.raises(dt.CheckpointError, match=r"no room for epoch=2-step=9\.ckpt"):
        trainer.fit(Regression(), loader(20))
    assert names(kept) == ["epoch=1-step=6.ckpt"]
    for rank in (0, 1):
        assert "no room for epoch=2-step=9.ckpt" in (tmp_path / f"rank{rank}").read_text()

    path = kept / "epoch=1-step=6.ckpt"
    again = quiet(max_epochs=3, plugins=[dt.AsyncCheckpointIO()], **settings)
    assert again.fit(Regression(), loader(20), ckpt_path=path).steps_here == 3
    assert names(kept) == ["epoch=2-step=9.ckpt"]
    checkpoint = torch.load(kept / "epoch=2-step=9.ckpt", weights_only=True)
    checkpoint["rng"][1]["torch"] = torch.zeros(3)
    torch.save(checkpoint, tmp_path / "broken.ckpt")
    with pytest.raises(dt.CheckpointError, match=r"rng\[1\].torch has the shape"):
        again.fit(Regression(), loader(20), ckpt_path=tmp_path / "broken.ckpt")
