"""Floor 3: the data law. One global order from (seed, epoch); ranks slice it.

::

    seeds.py     numbers from (seed, epoch, ...), and running user code under them
    stream.py    the user's own batches, as indices, in the epoch's order
    workers.py   one seed a batch inside loader workers
    fetching.py  a batch from its indices, in this process; tensor datasets whole
    feed.py      Feed: the batches of one rank, with the share that each has in its step
    make.py      which feed reads a loader
    indexed.py   map-style loaders, sliced by index
    plain.py     any other iterable of batches
    measured.py  batches that are counted as they come
    states.py    state of the user's samplers, datasets and loaders
    combined.py  CombinedLoader: several loaders side by side
    own.py       loaders that share themselves out by rank
    sizes.py     how many samples a batch holds
    limits.py    limit_*_batches
"""

from drivetrain.data.combined import CombinedFeed, CombinedLoader, holds_loaders, is_loader
from drivetrain.data.feed import Feed, Part, Share, Slice
from drivetrain.data.limits import check_limit, part_of
from drivetrain.data.make import make_feed
from drivetrain.data.measured import counted
from drivetrain.data.own import OwnFeed
from drivetrain.data.seeds import mix, seeded

__all__ = [
    "CombinedFeed",
    "CombinedLoader",
    "Feed",
    "OwnFeed",
    "Part",
    "Share",
    "Slice",
    "check_limit",
    "counted",
    "holds_loaders",
    "is_loader",
    "make_feed",
    "mix",
    "part_of",
    "seeded",
]
