"""Collectives: what every rank has to call together."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Literal, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

T = TypeVar("T")

Op: TypeAlias = Literal["sum", "mean", "max", "min"]


class Collectives(ABC):
    """Communication over all ranks of a run. Every rank must call, in the same order."""

    @property
    @abstractmethod
    def rank(self) -> int:
        """This process's number among the ranks."""

    @property
    @abstractmethod
    def world_size(self) -> int:
        """Number of ranks."""

    @abstractmethod
    def all_reduce(self, tensor: Tensor, op: Op = "sum") -> Tensor:
        """Combine the tensor over all ranks, in place, and return it.

        Gradients do not flow through; ``mean`` needs a floating (or complex) tensor.

        Shapes:
            tensor: any, the same on each rank.
            returns: the tensor itself.
        Collectives:
            one all_reduce of the tensor's size; every rank must call.
        Raises:
            CollectiveError [collectives.integer-mean]: the mean of integers is no integer.
            CollectiveError [collectives.unknown-op]: ``op`` is none of sum, mean, max, min.
        """

    @abstractmethod
    def start_all_reduce(self, tensor: Tensor, op: Op = "sum") -> Callable[[], Tensor]:
        """Begin to combine the tensor over all ranks; the call of what is returned waits, and returns it.

        Nobody may touch the tensor until then. Other collectives may be called in between.

        Shapes:
            tensor: any, contiguous, the same on each rank; for ``sum``, ``max`` and ``min``.
        Collectives:
            one all_reduce of the tensor's size; every rank must call.
        """

    @abstractmethod
    def all_gather(self, tensor: Tensor) -> list[Tensor]:
        """Return every rank's tensor, in order of rank.

        Shapes:
            tensor: any, the same on each rank.
            returns: one tensor a rank, each of that shape.
        Collectives:
            one all_gather of the tensor's size; every rank must call.
        """

    @abstractmethod
    def broadcast(self, tensor: Tensor, source: int = 0) -> Tensor:
        """Overwrite the tensor with the one of rank ``source``, in place, and return it.

        Shapes:
            tensor: any, the same on each rank.
            returns: the tensor itself.
        Collectives:
            one broadcast of the tensor's size; every rank must call.
        """

    @abstractmethod
    def barrier(self) -> None:
        """Return when every rank has called.

        Collectives:
            one barrier; every rank must call.
        """

    @abstractmethod
    def all_gather_object(self, value: T) -> list[T]:
        """Return every rank's object, in order of rank.

        Classes of the user's script may take part: they travel by value and come back as themselves.

        Collectives:
            two all_gathers: 8 bytes, then the largest pickle; every rank must call.
        """

    @abstractmethod
    def gather_object(self, value: T) -> list[T] | None:
        """Return every rank's object, in order of rank, on rank 0; None elsewhere.

        Collectives:
            an all_gather of 8 bytes and a gather of the largest pickle; every rank must call.
        """

    @abstractmethod
    def broadcast_object(self, value: T, source: int = 0) -> T:
        """Return the object of rank ``source`` on every rank; what the others pass is ignored.

        Collectives:
            two broadcasts: 8 bytes, then the pickle; every rank must call.
        """
