"""Floor 3: how ranks talk to each other.

::

    place.py        where this process stands and where the ranks meet
    collectives.py  the interface           single.py  one rank, no process group
    torch.py        torch.distributed       objects.py Python objects as byte tensors
    meeting.py      the store that ranks meet at, and who came
    patience.py     a word when a rank waits long for the others
    groups.py       groups of neighbouring ranks
    connect.py      a place becomes collectives, and is left again
"""
