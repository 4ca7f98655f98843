"""Groups of neighbouring ranks, each with collectives of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from drivetrain.collectives.torch import TorchCollectives

if TYPE_CHECKING:
    import torch


def neighbours(size: int, device: torch.device) -> TorchCollectives:
    """Return collectives over this rank's group: ranks 0 to size-1 are the first, and so on.

    Shapes:
        size: a divisor of the world size.
    Collectives:
        makes a process group for each group; every rank must call, and must `leave` it.
    """
    import torch.distributed as dist

    group, _ = dist.new_subgroups(size)  # type: ignore[no-untyped-call]  # public, but torch gives no types
    return TorchCollectives(device, group)


def leave(collectives: TorchCollectives) -> None:
    """Give up the group's connections; after a failure too."""
    import torch.distributed as dist

    # The default group may be gone, and has taken this one with it.
    if dist.is_initialized():
        dist.destroy_process_group(collectives.group)
