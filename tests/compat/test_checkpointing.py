from __future__ import annotations

from types import SimpleNamespace

import drivetrain as dt
from drivetrain.compat.checkpointing import ModelCheckpoint, folder


def test_the_folder_is_the_first_loggers():
    logger = SimpleNamespace(save_dir="a", name="b", version=3)
    trainer = SimpleNamespace(logger=logger, default_root_dir="root")
    assert folder(trainer) == "a/b/version_3/checkpoints"
    logger.version, logger.save_dir = "mine", None
    assert folder(trainer) == "root/b/mine/checkpoints"
    trainer.logger = None
    assert folder(trainer) == "root/checkpoints"
    assert issubclass(ModelCheckpoint, dt.ModelCheckpoint)
