"""Collectives over a process group of torch.distributed."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar, final

from drivetrain.collectives.collectives import Collectives, Op
from drivetrain.collectives.objects import from_bytes, to_bytes
from drivetrain.collectives.ops import check_op
from drivetrain.collectives.patience import patient

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch
    from torch.distributed import ProcessGroup

T = TypeVar("T")


@final
class TorchCollectives(Collectives):
    """Collectives over a process group; None is the default group."""

    def __init__(
        self, device: torch.device, group: ProcessGroup | None = None, *, owned: bool = False
    ) -> None:
        import torch.distributed as dist

        self._dist = dist
        self.group = group
        self.owned = owned
        """Whether `connect` created the group, so that `disconnect` destroys it."""
        self._rank = dist.get_rank(group)
        self._world_size = dist.get_world_size(group)
        self._is_nccl = "nccl" in str(dist.get_backend(group))
        self.device = device if self._is_nccl else type(device)("cpu")
        """Where bytes must lie to be sent."""

    @property
    def rank(self) -> int:
        """This process's number in the group."""
        return self._rank

    @property
    def world_size(self) -> int:
        """Number of ranks in the group."""
        return self._world_size

    def all_reduce(self, tensor: torch.Tensor, op: Op = "sum") -> torch.Tensor:
        """Combine the tensor over all ranks, in place, and return it."""
        check_op(tensor, op)
        kinds = self._dist.ReduceOp
        kind = {"sum": kinds.SUM, "mean": kinds.SUM, "max": kinds.MAX, "min": kinds.MIN}[op]
        data = tensor.detach()
        sent = data.contiguous()
        self._dist.all_reduce(sent, kind, self.group)
        if op == "mean":
            sent /= self._world_size
        if sent.data_ptr() != data.data_ptr():
            data.copy_(sent)
        return tensor

    def start_all_reduce(self, tensor: torch.Tensor, op: Op = "sum") -> Callable[[], torch.Tensor]:
        """Begin to combine the tensor over all ranks; the call of what is returned waits, and returns it."""
        check_op(tensor, op)
        kinds = self._dist.ReduceOp
        kind = {"sum": kinds.SUM, "max": kinds.MAX, "min": kinds.MIN}[op]
        work = self._dist.all_reduce(tensor, kind, self.group, async_op=True)

        def finish() -> torch.Tensor:
            work.wait()
            return tensor

        return finish

    def all_gather(self, tensor: torch.Tensor) -> list[torch.Tensor]:
        """Return every rank's tensor, in order of rank."""
        sent = tensor.detach().contiguous()
        gathered = [sent.new_empty(sent.shape) for _ in range(self._world_size)]
        self._dist.all_gather(gathered, sent, self.group)
        return gathered

    def broadcast(self, tensor: torch.Tensor, source: int = 0) -> torch.Tensor:
        """Overwrite the tensor with the one of rank ``source``, in place, and return it."""
        data = tensor.detach()
        sent = data.contiguous()
        self._dist.broadcast(sent, group=self.group, group_src=source)
        if sent.data_ptr() != data.data_ptr():
            data.copy_(sent)
        return tensor

    def barrier(self) -> None:
        """Return when every rank has called."""
        with patient(self._rank, "barrier"):
            if self._is_nccl:
                self._dist.barrier(self.group, device_ids=[self.device.index or 0])
            else:
                self._dist.barrier(self.group)

    def all_gather_object(self, value: T) -> list[T]:
        """Return every rank's object, in order of rank."""
        with patient(self._rank, "all_gather_object"):
            data, sizes = self._padded(value)
            return [from_bytes(part[:size]) for part, size in zip(self.all_gather(data), sizes, strict=True)]

    def gather_object(self, value: T) -> list[T] | None:
        """Return every rank's object, in order of rank, on rank 0; None elsewhere."""
        with patient(self._rank, "gather_object"):
            data, sizes = self._padded(value)
            parts = [data.new_empty(data.shape) for _ in sizes] if self._rank == 0 else None
            self._dist.gather(data, parts, group=self.group, group_dst=0)
        if parts is None:
            return None
        return [from_bytes(part[:size]) for part, size in zip(parts, sizes, strict=True)]

    def broadcast_object(self, value: T, source: int = 0) -> T:
        """Return the object of rank ``source`` on every rank; what the others pass is ignored."""
        is_source = self._rank == source
        data = to_bytes(value if is_source else None, self.device)
        with patient(self._rank, "broadcast_object"):
            size = int(self.broadcast(_number(data, data.numel()), source).item())
            received: T = from_bytes(self.broadcast(data if is_source else data.new_empty(size), source))
        return value if is_source else received

    def _padded(self, value: object) -> tuple[torch.Tensor, list[int]]:
        """Return the object's bytes, padded to the longest of all ranks, and every rank's size."""
        data = to_bytes(value, self.device)
        sizes = [int(size.item()) for size in self.all_gather(_number(data, data.numel()))]
        padded = data.new_zeros(max(sizes))
        padded[: data.numel()] = data
        return padded, sizes


def _number(like: torch.Tensor, value: int) -> torch.Tensor:
    import torch

    return torch.tensor([value], dtype=torch.int64, device=like.device)
