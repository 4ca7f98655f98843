"""Floor 3: how a checkpoint reaches a disk and comes back.

::

    checkpoint_io.py   CheckpointIO: the interface
    local.py           LocalCheckpointIO: one .ckpt file, written whole or not at all
    wrapping.py        WrappingCheckpointIO: a storage around another one
    deferred.py        AsyncCheckpointIO: copied first, then written by a thread
    opening.py         a file to read, wherever it is
    scan.py            what a file asks for and declares, before anything of it is made
    foreign.py         what is made of other libraries' classes
    plain.py           what a checkpoint may hold
    entry.py           a part of a checkpoint, which knows its name
    contents.py        what a checkpoint holds, entry by entry
    trace.py           what tells a file from another one of its name
"""

from drivetrain.base.loading import at_home

__getattr__, __dir__ = at_home(__name__)
