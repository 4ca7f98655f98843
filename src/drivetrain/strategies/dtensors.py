"""Tensors of which each rank has a part: made, put together, measured and clipped.

A tensor that is no DTensor is whole on each rank, and passes through.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor
from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

from drivetrain.base.tree import map_leaves
from drivetrain.strategies.parts import local


def whole(value: Any) -> Any:
    """Return a tensor as it is without ranks.

    Collectives:
        an all_gather over each axis on which it is in parts; every rank must call.
    """
    return value.full_tensor() if isinstance(value, DTensor) else value


def whole_on_zero(value: Any, *, is_zero: bool) -> Any:
    """Return nested data with whole tensors on rank 0's CPU, one after the other; elsewhere without tensors.

    Two places that hold one tensor hold one tensor afterwards.

    Collectives:
        those of `whole` for each tensor that is in parts; every rank must call, with the same tensors.
    """
    found: dict[int, torch.Tensor] = {}

    def one(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        if id(leaf) not in found:
            full = whole(leaf.detach())
            found[id(leaf)] = full.cpu() if is_zero else full.new_empty(0, device="cpu")
        return found[id(leaf)]

    return map_leaves(value, one)


def part_like(value: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """Return this rank's part of a whole tensor that every rank has, as ``like`` is in parts.

    Nothing is sent. A tensor of another shape than ``like``, such as a counter of steps, is returned as it
    is.
    """
    if not isinstance(like, DTensor) or isinstance(value, DTensor) or value.shape != like.shape:
        return value
    shape, offset = compute_local_shape_and_global_offset(like.shape, like.device_mesh, like.placements)
    mine = value
    for axis, (size, begin) in enumerate(zip(shape, offset, strict=True)):
        # A rank whose part is empty begins where the tensor ends.
        mine = mine.narrow(axis, min(begin, mine.size(axis) - size), size)
    return spread_like(mine.to(like.to_local().device, copy=True).contiguous(), like)


def spread_like(part: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """Return the tensor of which this rank has ``part``, as it has a part of ``like``; nothing is sent."""
    if not isinstance(like, DTensor):
        return part
    return DTensor.from_local(
        part, like.device_mesh, like.placements, run_check=False, shape=like.shape, stride=like.stride()
    )


def parts_like(state: Mapping[str, Any], current: Mapping[str, Any]) -> dict[str, Any]:
    """Return a module's whole state in the parts that its current state has."""
    return {
        name: part_like(value, current[name])
        if isinstance(value, torch.Tensor) and isinstance(current.get(name), torch.Tensor)
        else value
        for name, value in state.items()
    }


def total_norm(tensors: Iterable[torch.Tensor]) -> torch.Tensor:
    """Return the joint 2-norm of tensors that are in parts on any meshes, or whole; the same on all ranks.

    Each part counts once: those on axes over which a tensor is divided are added up over ranks.

    Shapes:
        tensors: any.
        returns: [], float32 or float64.
    Collectives:
        for each set of axes over which tensors are divided, one all_reduce of 8 bytes an axis; every rank
        must call.
    """
    squares: dict[Any, torch.Tensor] = {}
    for tensor in tensors:
        mine = local(tensor.detach())
        key: Any = None, ()
        if isinstance(tensor, DTensor):
            divided = (axis for axis, how in enumerate(tensor.placements) if how.is_shard())
            key = (tensor.device_mesh, tuple(divided))
        wide = torch.float64 if mine.dtype is torch.float64 else torch.float32
        square = torch.linalg.vector_norm(mine, dtype=wide).square().double()
        squares[key] = squares[key] + square if key in squares else square
    for (mesh, axes), square in squares.items():
        for axis in axes:
            dist.all_reduce(square, group=mesh.get_group(axis))
    return torch.stack(list(squares.values())).sum().sqrt() if squares else torch.zeros(())


def clip(optimizer: torch.optim.Optimizer, clip_val: float, algorithm: str) -> None:
    """Clip an optimizer's gradients in place, by joint norm over all ranks' parts, or each entry by value.

    Collectives:
        by norm those of `total_norm`; every rank must call.
    Source:
        Pascanu et al. 2013, section 3.2; contract of torch.nn.utils.clip_grad_norm_.
    """
    grads = [
        local(one.grad) for group in optimizer.param_groups for one in group["params"] if one.grad is not None
    ]
    if algorithm == "value":
        for grad in grads:
            grad.clamp_(-clip_val, clip_val)
        return
    norm = total_norm(
        one.grad for group in optimizer.param_groups for one in group["params"] if one.grad is not None
    )
    factor = (clip_val / (norm + 1e-6)).clamp(max=1.0)
    for grad in grads:
        grad.mul_(factor.to(grad.device, torch.promote_types(grad.dtype, torch.float32)))


def state_in_parts(state: Mapping[str, Any], parameters: Sequence[torch.Tensor]) -> dict[str, Any]:
    """Return an optimizer's whole ``state_dict`` in the parts that its parameters have, in their order."""
    numbers = [number for group in state["param_groups"] for number in group["params"]]
    known = dict(zip(numbers, parameters, strict=False))
    kept = {number: _held(held, known.get(number)) for number, held in state["state"].items()}
    return {**state, "state": kept}


def _held(held: Any, like: torch.Tensor | None) -> Any:
    if like is None:
        return held
    return map_leaves(held, lambda leaf: part_like(leaf, like) if isinstance(leaf, torch.Tensor) else leaf)
