"""Floor 3: the data law. One global order from (seed, epoch); ranks slice it.

::

    seeds.py     numbers from (seed, epoch, ...), and running user code under them
    stream.py    the user's own batches, as indices, in the epoch's order
    workers.py   one seed a batch inside loader workers
    feed.py      Feed: the batches of one rank, with the share that each has in its step
    sizes.py     how many samples a batch holds
    limits.py    limit_*_batches
"""

from drivetrain.data.feed import Feed, Share, make_feed
from drivetrain.data.limits import check_limit
from drivetrain.data.seeds import mix, seeded

__all__ = ["Feed", "Share", "check_limit", "make_feed", "mix", "seeded"]
