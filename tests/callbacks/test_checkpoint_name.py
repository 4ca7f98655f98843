from __future__ import annotations

import pytest
import torch

import drivetrain as dt
from drivetrain.callbacks.checkpoint_name import check_template, fill, joined

VALUES = {"epoch": 3, "step": 400, "val_loss": torch.tensor(0.12345), "val/acc": 0.5, "n": torch.tensor(7)}


@pytest.mark.parametrize(
    ("template", "plain", "inserted"),
    [
        ("{epoch}-{step}", "3-400", "epoch=3-step=400"),
        ("{epoch:02d}-{val_loss:.2f}", "03-0.12", "epoch=03-val_loss=0.12"),
        ("a/{step:06d}", "a/000400", "a/step=000400"),
        ("{val/acc:.1f}", "0.5", "val_acc=0.5"),
        ("{n}-{n:03d}", "7-007", "n=7-n=007"),
        ("{missing:.3f}", "nan", "missing=nan"),
        ("best", "best", "best"),
    ],
)
def test_fields_become_values(template: str, plain: str, inserted: str) -> None:
    assert fill(template, VALUES, insert_names=False) == plain
    assert fill(template, VALUES) == inserted
    assert fill(template, VALUES, equals="_") == inserted.replace("=", "_")


@pytest.mark.parametrize("template", ["{epoch:.q}", "{val:03s}", "{epoch", "epoch}", "{}", "", 3])
def test_a_template_that_no_value_fits_is_refused_before_the_run(template: object) -> None:
    with pytest.raises(dt.ModuleError, match=r"callback.bad-argument"):
        check_template("ModelCheckpoint", "filename", template)


def test_a_format_that_the_value_does_not_fit_names_both() -> None:
    assert check_template("ModelCheckpoint", "filename", "{val_loss:d}")
    with pytest.raises(dt.ModuleError, match=r"val_loss is 0.12"):
        fill("{val_loss:d}", VALUES)


def test_a_remote_folder_keeps_its_slashes() -> None:
    assert joined("memory://runs/a", "b.ckpt") == "memory://runs/a/b.ckpt"
