"""Floor 5: what acts on a run from outside of the module.

::

    callback.py       Callback: every hook, empty
    checkpoint.py     ModelCheckpoint: saves every n steps or epochs
    line_progress.py  LineProgress: one line every few seconds
    rich_progress.py  RichProgress: a bar on a terminal
"""

from drivetrain.callbacks.callback import Callback
from drivetrain.callbacks.checkpoint import ModelCheckpoint
from drivetrain.callbacks.line_progress import LineProgress
from drivetrain.callbacks.rich_progress import RichProgress

__all__ = ["Callback", "LineProgress", "ModelCheckpoint", "RichProgress"]
