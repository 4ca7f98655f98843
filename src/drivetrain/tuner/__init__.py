"""Floor 8: settings that are found by short runs on the side.

::

    batch_size.py           the largest batch size that fits; ranks try alone, and vote
    batch_size_finder.py    BatchSizeFinder: the same when a run begins
    finder.py               Finder: what the two callbacks share; who takes no part in a search
    learning_rate_finder.py LearningRateFinder: the learning rate when a fit begins
    lr_find.py              the learning rate
    places.py               where a setting stands: attributes and hyperparameters
    refusal.py              the errors for a search's arguments
    tuner.py                Tuner: joins the searches
"""

from drivetrain.tuner.batch_size_finder import BatchSizeFinder
from drivetrain.tuner.learning_rate_finder import LearningRateFinder
from drivetrain.tuner.lr_find import LRSearch
from drivetrain.tuner.tuner import Tuner

__all__ = ["BatchSizeFinder", "LRSearch", "LearningRateFinder", "Tuner"]
