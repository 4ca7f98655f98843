"""One rank: nobody to talk to, and no process group."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar, final

from drivetrain.collectives.collectives import Collectives, Op
from drivetrain.collectives.ops import check_op

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

T = TypeVar("T")


@final
class SingleCollectives(Collectives):
    """Collectives over a world of one rank: what goes in comes out."""

    @property
    def rank(self) -> int:
        """Always 0."""
        return 0

    @property
    def world_size(self) -> int:
        """Always 1."""
        return 1

    def all_reduce(self, tensor: Tensor, op: Op = "sum") -> Tensor:
        """Return the tensor; refuse what several ranks would refuse."""
        check_op(tensor, op)
        return tensor

    def start_all_reduce(self, tensor: Tensor, op: Op = "sum") -> Callable[[], Tensor]:
        """Return what returns the tensor."""
        check_op(tensor, op)
        return lambda: tensor

    def all_gather(self, tensor: Tensor) -> list[Tensor]:
        """Return a list of one copy."""
        return [tensor.detach().clone()]

    def broadcast(self, tensor: Tensor, source: int = 0) -> Tensor:  # noqa: ARG002 - the only source is 0
        """Return the tensor."""
        return tensor

    def barrier(self) -> None:
        """Return at once."""

    def all_gather_object(self, value: T) -> list[T]:
        """Return a list of the object itself."""
        return [value]

    def gather_object(self, value: T) -> list[T] | None:
        """Return a list of the object itself."""
        return [value]

    def broadcast_object(self, value: T, source: int = 0) -> T:  # noqa: ARG002 - the only source is 0
        """Return the object itself."""
        return value
