"""Whether all ranks bring the same kinds of tensors: a backend that gets others ends the process."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from drivetrain.base.errors import CollectiveError

if TYPE_CHECKING:
    import torch

    from drivetrain.collectives.collectives import Collectives


def check_alike(
    tensors: Sequence[torch.Tensor], collectives: Collectives, device: torch.device, verb: str = "all_gather"
) -> None:
    """Refuse tensors that differ over ranks in number, shape or type; ``verb`` is what they are for.

    Collectives:
        with several ranks, one all_reduce of 16 bytes; every rank must call.
    Raises:
        CollectiveError [collectives.shapes]: they differ; on every rank.
    """
    if collectives.world_size == 1:
        return
    import torch

    mine = [f"{list(one.shape)} {str(one.dtype).removeprefix('torch.')}" for one in tensors]
    digest = hashlib.blake2b("; ".join(mine).encode(), digest_size=8).digest()
    word = int.from_bytes(digest, "big") >> 2
    pair = torch.tensor([word, -word], dtype=torch.int64, device=device)
    high, negated_low = collectives.all_reduce(pair, "max").tolist()
    if high == -negated_low:
        return
    everybody = collectives.all_gather_object(mine)
    raise CollectiveError(
        "collectives.shapes",
        f"{verb} of tensors that differ over ranks",
        values={f"rank {rank}": ", ".join(of_rank) for rank, of_rank in enumerate(everybody)},
        because="what is put together has one shape and one type on all ranks",
        hint="pad them to one shape, or send objects: collectives.all_gather_object(value)",
    )
