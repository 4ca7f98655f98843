"""Floor 6: the Trainer, which joins all floors below.

::

    trainer.py     Trainer: the verbs
    view.py        what it answers about its plan and run
    arguments.py   the names and values of its arguments
"""

from drivetrain.trainer.trainer import Trainer

__all__ = ["Trainer"]
