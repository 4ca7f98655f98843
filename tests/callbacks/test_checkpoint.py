from __future__ import annotations

from pathlib import Path

import pytest
import torch

import drivetrain as dt
from tests.loops.models import Regression, differing, loader, quiet


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_newest_replaces_the_one_before_and_strangers_stay(tmp_path: Path) -> None:
    (tmp_path / "stranger.ckpt").write_text("of another run")
    saves = dt.ModelCheckpoint(tmp_path, every_n_train_steps=4, save_last=True)
    result = quiet(max_epochs=1, callbacks=[saves]).fit(Regression(), loader())
    assert names(tmp_path) == ["epoch=0-step=8.ckpt", "last.ckpt", "stranger.ckpt"]
    assert result.checkpoint_path == str(tmp_path / "epoch=0-step=8.ckpt")


def test_all_are_kept_on_request_and_named_by_what_was_logged(tmp_path: Path) -> None:
    saves = dt.ModelCheckpoint(tmp_path, "{epoch:02d}-{loss_epoch:.1f}", save_top_k=-1)
    quiet(max_epochs=2, callbacks=[saves]).fit(Regression(lr=0.0), loader())
    found = names(tmp_path)
    assert len(found) == 2
    assert found[1].startswith("epoch=01-loss_epoch=")


def test_the_default_saves_every_epoch_under_the_root(tmp_path: Path) -> None:
    trainer = quiet(max_epochs=2, enable_checkpointing=True, default_root_dir=tmp_path)
    result = trainer.fit(Regression(), loader())
    assert names(tmp_path / "checkpoints") == ["epoch=1-step=20.ckpt"]
    assert trainer.fit(Regression(), loader(), ckpt_path="last").steps_here == 0
    assert result.checkpoint_path.endswith("epoch=1-step=20.ckpt")


@pytest.mark.parametrize("epoch", [0, 1])
def test_a_run_resumed_from_an_epochs_end_equals_the_uninterrupted_one(tmp_path: Path, epoch: int) -> None:
    def run(folder: str, path: Path | None) -> dict:
        torch.manual_seed(0 if path is None else 5)
        saves = dt.ModelCheckpoint(tmp_path / folder, save_top_k=-1)
        trainer, module = quiet(max_epochs=3, callbacks=[saves]), Stepped(dropout=0.5)
        torch.manual_seed(0 if path is None else 5)
        trainer.fit(module, loader(shuffle=True), loader(5, 2), ckpt_path=path)
        trainer.save_checkpoint(tmp_path / "end.ckpt")
        found = torch.load(tmp_path / "end.ckpt", weights_only=True)
        del found["callbacks"]
        return found

    whole = run("a", None)
    assert not differing(whole, run("b", tmp_path / "a" / f"epoch={epoch}-step={10 * (epoch + 1)}.ckpt"))


class Stepped(Regression):
    def configure_optimizers(self):
        optimizer = super().configure_optimizers()
        watch = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0)
        return [optimizer], [
            torch.optim.lr_scheduler.StepLR(optimizer, 1),
            {"scheduler": watch, "monitor": "val"},
        ]


@pytest.mark.parametrize("given", [{"every_n_epochs": 0}, {"every_n_train_steps": 1.5}, {"save_top_k": 3}])
def test_other_arguments_are_refused(given: dict) -> None:
    with pytest.raises(dt.ModuleError, match=r"callback.bad-argument"):
        dt.ModelCheckpoint(**given)


def test_two_of_one_state_key_are_refused() -> None:
    twice = [dt.ModelCheckpoint("a"), dt.ModelCheckpoint("b")]
    with pytest.raises(dt.ModuleError, match=r"callback.duplicate-key"):
        quiet(callbacks=twice).fit(Regression(), loader())
