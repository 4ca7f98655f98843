"""SaveConfigCallback: what was said, in a file beside the run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from drivetrain.callbacks.callback import Callback
from drivetrain.callbacks.checkpoint_name import joined
from drivetrain.callbacks.claims import Claims
from drivetrain.checkpoint_io.opening import is_remote, store_of
from drivetrain.modules import Module, Run
from drivetrain.program.parser import EVERYTHING


class SaveConfigCallback(Callback):
    """Write the whole configuration of a run, which ``--config`` reads back.

    It is written once, on rank 0, when the first verb begins, into the folder that the logger writes to,
    else into ``default_root_dir``: as ``config_filename``, or under the next free name, ``config-v1.yaml``,
    where another run's is there. In a store (``s3://...``) it is one file, whatever ``multifile``.
    Override `save_config` to put it elsewhere too.
    """

    def __init__(
        self,
        parser: Any,
        config: Any,
        config_filename: str = "config.yaml",
        overwrite: bool = False,
        multifile: bool = False,
        save_to_log_dir: bool = True,
    ) -> None:
        self.parser = parser
        self.config = config
        self.config_filename = config_filename
        self.overwrite = overwrite
        self.multifile = multifile
        self.save_to_log_dir = save_to_log_dir
        self.already_saved = False

    def setup(self, trainer: Run, module: Module, stage: str) -> None:
        """Write the file, unless it is a fast run, which leaves no files."""
        if self.already_saved or trainer.fast_dev_run or not trainer.is_global_zero:
            return
        self.already_saved = True
        if self.save_to_log_dir:
            self._write(trainer.log_dir)
        self.save_config(trainer, module, stage)

    def _write(self, folder: str) -> None:
        name, claims = Path(self.config_filename), Claims()
        path, version = joined(folder, name.name), 1
        while not self.overwrite and not claims.take(path):
            path, version = joined(folder, f"{name.stem}-v{version}{name.suffix}"), version + 1
        try:
            if is_remote(path):
                system, inner = store_of(path)
                with system.open(inner, "w") as file:
                    file.write(self.parser.dump(self.config, **EVERYTHING))
            else:
                Path(folder).mkdir(parents=True, exist_ok=True)
                options = {"overwrite": self.overwrite, "multifile": self.multifile, **EVERYTHING}
                self.parser.save(self.config, path, **options)
        finally:
            claims.release()

    def save_config(self, trainer: Run, module: Module, stage: str) -> None:
        """Save ``self.config`` elsewhere too; on rank 0. Here it does nothing."""

    def __getstate__(self) -> dict[str, Any]:
        """Leave the parser out on the way to other ranks, which do not write."""
        return {**vars(self), "parser": None, "config": None}
