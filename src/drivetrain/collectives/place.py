"""Where this process stands among the ranks, and where they meet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from drivetrain.resolver.ranks import Ranks

if TYPE_CHECKING:
    from torch.distributed.distributed_c10d import Store

TIMEOUT_S = 1800.0
"""How long set-up and each collective may take when nobody says otherwise."""

_LIVE = ("store", "check")


@dataclass
class Place:
    """A rank's place in one launch; made by a launcher, used by `connect`.

    Pickles without what lives in one process only: the store and the check.

    Units:
        timeout_s: seconds, for set-up and for each collective.
    """

    ranks: Ranks
    address: str = "127.0.0.1"
    """Host of the store that the ranks meet at."""
    port: int = 0
    timeout_s: float = TIMEOUT_S
    session: str = ""
    """Tells apart the meetings that one store serves; equal on every rank of one launch."""
    serves: bool = False
    """Whether this process has to open the store at ``address`` and ``port`` itself."""
    num_meetings: int = 0
    """How often `connect` met its peers from here; ranks that call alike count alike."""
    store: Store | None = field(default=None, repr=False, compare=False)
    """The live store, bound before any rank was started, so that no port can be taken meanwhile."""
    check: Callable[[], None] | None = field(default=None, repr=False, compare=False)
    """Raises when the launch is broken, so that nobody waits for a rank that has failed."""

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what lives in this process only."""
        return {name: None if name in _LIVE else value for name, value in vars(self).items()}
