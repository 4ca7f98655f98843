"""Floor 7: settings that are found by short runs on the side.

::

    tuner.py    Tuner: joins the searches
    lr_find.py  the learning rate
"""

from drivetrain.tuner.lr_find import LRSearch
from drivetrain.tuner.tuner import Tuner

__all__ = ["LRSearch", "Tuner"]
