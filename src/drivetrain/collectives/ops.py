"""Which reductions there are, and what each refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

from drivetrain.base.errors import CollectiveError
from drivetrain.base.text import listed
from drivetrain.collectives.collectives import Op

if TYPE_CHECKING:
    from torch import Tensor

OPS: tuple[str, ...] = get_args(Op)


def check_op(tensor: Tensor, op: str) -> None:
    """Refuse a reduction that does not exist or has no answer for the tensor.

    Raises:
        CollectiveError [collectives.integer-mean]: the mean of integers is no integer.
        CollectiveError [collectives.unknown-op]: ``op`` is none of sum, mean, max, min.
    """
    if op not in OPS:
        raise CollectiveError(
            "collectives.unknown-op",
            f"all_reduce knows no op={op!r}",
            values={"op": op},
            because=f"the reductions are: {listed(OPS)}",
        )
    if op == "mean" and not (tensor.is_floating_point() or tensor.is_complex()):
        raise CollectiveError(
            "collectives.integer-mean",
            f"the mean of a {tensor.dtype} tensor cannot be stored in it",
            values={"op": op, "dtype": tensor.dtype},
            because="all_reduce works in place, and the mean of integers is no integer",
            hint="reduce tensor.float(), or use op='sum'",
        )
