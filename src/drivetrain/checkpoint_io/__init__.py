"""Floor 3: how a checkpoint reaches a disk and comes back.

::

    checkpoint_io.py   CheckpointIO: the interface
    local.py           LocalCheckpointIO: one .ckpt file, written whole or not at all
    plain.py           what a checkpoint may hold
    trace.py           what tells a file from another one of its name
"""

from drivetrain.checkpoint_io.checkpoint_io import CheckpointIO
from drivetrain.checkpoint_io.local import LocalCheckpointIO

__all__ = ["CheckpointIO", "LocalCheckpointIO"]
