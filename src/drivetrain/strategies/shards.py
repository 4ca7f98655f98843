"""Optimizers whose state is shared out over ranks: each rank steps on its own parameters and sends them."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, final

import torch
from torch.nn.parameter import is_lazy

from drivetrain.base.errors import CheckpointError, ModuleError
from drivetrain.base.tree import leaves, map_leaves
from drivetrain.strategies.closure import wants_closure
from drivetrain.strategies.strategy import Strategy

_ALONE_BYTES = 2**20
"""A parameter from this size on is sent as it lies; smaller ones are put together."""
_BUCKET_BYTES = 4 * 2**20
_PIECE_BYTES = 64 * 2**20
"""How much of its state a rank sends to rank 0 at once, if it is not one parameter's."""


@final
class Shards:
    """Each parameter has an owner, the rank that has least; only the owner keeps state of it and steps on it.

    An optimizer is shared out within its step, by what its groups list, so a step has to see to each
    parameter by itself, as those of torch do. Schedulers, clipping and hooks find the groups whole.
    """

    def __init__(self, strategy: Strategy) -> None:
        self._strategy = strategy
        self._rank = strategy.ranks.rank
        self._owners: dict[torch.Tensor, int] = {}
        self._loads = [0] * strategy.ranks.world_size
        """Elements of each rank's parameters."""
        self._taken: dict[torch.optim.Optimizer, _Taken] = {}
        self._is_cut = False
        """Whether the run ended before parts were brought together."""

    def take(self, optimizer: torch.optim.Optimizer) -> None:
        """Share an optimizer's parameters out, and act around its steps from now on.

        Raises:
            ModuleError [strategy.joint-optimizer]: it evaluates the loss itself, over all parameters.
        """
        if optimizer in self._taken:
            return
        if wants_closure(optimizer):
            raise _joint(
                optimizer,
                "it evaluates the loss itself, while each rank would have changed other parameters",
                {},
            )
        before, after = (
            optimizer.register_step_pre_hook(self._before),
            optimizer.register_step_post_hook(self._after),
        )
        # Other hooks that look at the parameters after a step must find those of every rank.
        hooks = after.hooks_dict_ref()
        if hooks is not None:
            hooks.move_to_end(after.id, last=False)
        self._taken[optimizer] = _Taken([before, after])
        self._assign(optimizer)
        # Some make their state when they are made, for frozen parameters too: Adagrad.
        self._own([one for one in _parameters(optimizer) if one in optimizer.state])
        for parameter in [one for one in _parameters(optimizer) if not self._is_mine(one)]:
            optimizer.state.pop(parameter, None)

    def teardown(self) -> None:
        """Leave the optimizers alone; what was not brought together stays in parts."""
        for optimizer, taken in self._taken.items():
            self._show(optimizer)
            taken.remove()
        self._is_cut = bool(self._taken)

    def release(self, optimizer: torch.optim.Optimizer) -> None:
        """Give the optimizer back: whole on rank 0, with its part elsewhere."""
        if optimizer not in self._taken:
            return
        state = self.state(optimizer)["state"]
        self._taken.pop(optimizer).remove()
        for number, parameter in enumerate(_parameters(optimizer)):
            if number in state:
                optimizer.state[parameter] = state[number]

    @contextmanager
    def own_part(self, optimizer: torch.optim.Optimizer) -> Iterator[None]:
        """Let the optimizer's groups list this rank's parameters only."""
        if optimizer not in self._taken:
            yield
            return
        self._hide(optimizer)
        try:
            yield
        finally:
            self._show(optimizer)

    def state(self, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
        """Return the whole state on rank 0, from every rank's; this rank's elsewhere.

        Collectives:
            an all_gather of what groups say, and a gather for each 64 MiB of the largest part.
        """
        found = optimizer.state_dict()
        if optimizer not in self._taken:
            return found
        if self._is_cut:
            raise _in_parts(optimizer)
        parameters, state = _parameters(optimizer), found["state"]
        # What nobody owns has no state but one that others made, of which rank 0's counts.
        owned = [number for number, one in enumerate(parameters) if self._owners.get(one, 0) == self._rank]
        mine = {number: state[number] for number in owned if number in state}
        pieces = [] if self._rank == 0 else list(_pieces(mine))
        gather = self._strategy.collectives.gather_object
        whole = dict(mine)
        for index in range(max(self._agreed(optimizer, len(pieces)))):
            piece = pieces[index] if index < len(pieces) else {}
            for part in gather(map_leaves(piece, _to_cpu)) or ():
                whole |= part
        others = {key: value for key, value in state.items() if type(key) is not int}
        return {**found, "state": {number: whole[number] for number in sorted(whole)} | others}

    def load(self, optimizer: torch.optim.Optimizer, state: Mapping[str, Any]) -> None:
        """Load this rank's part of the whole state."""
        parameters, kept = _parameters(optimizer), state["state"]
        numbers = [number for group in state["param_groups"] for number in group["params"]]
        if optimizer not in self._taken or len(numbers) != len(parameters):
            optimizer.load_state_dict(dict(state))  # whose error says what does not fit
            return
        known = dict(zip(numbers, parameters, strict=True))
        self._own([one for number, one in known.items() if number in kept])  # also what is frozen now
        mine = {key: value for key, value in kept.items() if key not in known or self._is_mine(known[key])}
        optimizer.load_state_dict({**state, "state": mine})

    def _is_mine(self, parameter: torch.Tensor) -> bool:
        return self._owners.get(parameter) == self._rank

    def _assign(self, optimizer: torch.optim.Optimizer) -> None:
        """Find owners for what is trained; what is frozen needs no state, and gets one when it trains."""
        owners = self._owners
        new = [
            one
            for one in _parameters(optimizer)
            if one not in owners and (one.requires_grad or one.grad is not None) and not is_lazy(one)
        ]
        if new:
            self._own(new)

    def _own(self, parameters: list[torch.nn.Parameter]) -> None:
        """Give each parameter, the largest first, to the rank that has least."""
        new = [one for one in parameters if one not in self._owners]
        for one in sorted(new, key=torch.Tensor.numel, reverse=True):
            rank = self._loads.index(min(self._loads))
            self._owners[one] = rank
            self._loads[rank] += one.numel()

    def _before(
        self, optimizer: torch.optim.Optimizer, arguments: tuple[Any, ...], named: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        """Hide what others own from the step, but not from a closure, which computes and clips gradients."""
        self._hide(optimizer)
        # torch counts the optimizer itself among the arguments.
        closure = named.get("closure") if len(arguments) < 2 else arguments[1]  # noqa: PLR2004 - itself, closure
        if not callable(closure):
            return None

        @functools.wraps(closure)
        def whole() -> Any:
            self._show(optimizer)
            try:
                return closure()
            finally:
                self._hide(optimizer)

        if len(arguments) < 2:  # noqa: PLR2004 - as above
            return arguments, {**named, "closure": whole}
        return (arguments[0], whole, *arguments[2:]), named

    def _after(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        self._show(optimizer)
        taken = self._taken[optimizer]
        if not taken.was_checked:
            self._agreed(optimizer)
            taken.was_checked = True
        self._send(optimizer, taken)

    def _hide(self, optimizer: torch.optim.Optimizer) -> None:
        taken = self._taken[optimizer]
        self._show(optimizer)  # a step that failed, or one within another
        self._assign(optimizer)
        taken.whole = [group["params"] for group in optimizer.param_groups]
        for group in optimizer.param_groups:
            group["params"] = [one for one in group["params"] if self._is_mine(one)]

    def _show(self, optimizer: torch.optim.Optimizer) -> None:
        taken = self._taken[optimizer]
        for group, parameters in zip(optimizer.param_groups, taken.whole, strict=False):
            group["params"] = parameters
        taken.whole = []

    def _send(self, optimizer: torch.optim.Optimizer, taken: _Taken) -> None:
        """Give every rank what each has updated.

        Collectives:
            one broadcast of each large parameter, and one for each 4 MiB of small ones.
        """
        parameters = _parameters(optimizer)
        numbers = [id(one) for one in parameters if one in self._owners]
        if numbers != taken.numbers:
            taken.numbers, taken.buckets = numbers, self._buckets(parameters)
        broadcast = self._strategy.collectives.broadcast
        for owner, bucket in taken.buckets:
            if len(bucket) == 1:
                broadcast(bucket[0].detach(), owner)
                continue
            sizes = [one.numel() for one in bucket]
            if owner == self._rank:
                broadcast(torch.cat([one.detach().reshape(-1) for one in bucket]), owner)
                continue
            flat = broadcast(bucket[0].detach().new_empty(sum(sizes)), owner)
            for one, part in zip(bucket, torch.split(flat, sizes), strict=True):
                one.detach().copy_(part.view_as(one))

    def _buckets(self, parameters: list[torch.nn.Parameter]) -> list[tuple[int, list[torch.nn.Parameter]]]:
        """Put together what is sent at once: small parameters of one owner and type."""
        found: list[tuple[int, list[torch.nn.Parameter]]] = []
        fills: dict[Any, tuple[list[torch.nn.Parameter], int]] = {}
        for one in parameters:
            if one not in self._owners:
                continue
            owner, size = self._owners[one], one.numel() * one.element_size()
            key = (owner, one.dtype, one.device)
            bucket, filled = fills.get(key, ([], _BUCKET_BYTES))
            if size >= _ALONE_BYTES:
                found.append((owner, [one]))
                continue
            if filled + size > _BUCKET_BYTES:
                bucket, filled = [], 0
                found.append((owner, bucket))
            bucket.append(one)
            fills[key] = (bucket, filled + size)
        return found

    def _agreed(self, optimizer: torch.optim.Optimizer, number: int = 0) -> list[int]:
        """Return every rank's number, once it is seen that their groups say the same.

        Raises:
            ModuleError [strategy.joint-optimizer]: a step has put there what it found in its part.
        """
        said = [
            map_leaves({name: value for name, value in group.items() if name != "params"}, _plain)
            for group in optimizer.param_groups
        ]
        everybody = self._strategy.collectives.all_gather_object((number, dict(leaves(said))))
        first = everybody[0][1]
        for _, other in everybody:
            differing = {
                name: (first.get(name), other.get(name))
                for name in first.keys() | other.keys()
                if not _same(first.get(name), other.get(name))
            }
            if differing:
                raise _joint(
                    optimizer, "its step keeps in its groups what it finds in all parameters", differing
                )
        return [count for count, _ in everybody]


@final
class _Taken:
    """What is kept of an optimizer that is shared out."""

    def __init__(self, handles: list[Any]) -> None:
        self._handles = handles
        self.whole: list[list[torch.nn.Parameter]] = []
        """Each group's parameters, while the groups list this rank's only."""
        self.was_checked = False
        self.numbers: list[int] = []
        """Of which parameters the buckets are."""
        self.buckets: list[tuple[int, list[torch.nn.Parameter]]] = []

    def remove(self) -> None:
        for handle in self._handles:
            handle.remove()


def _parameters(optimizer: torch.optim.Optimizer) -> list[torch.nn.Parameter]:
    return list(itertools.chain.from_iterable(group["params"] for group in optimizer.param_groups))


def _pieces(state: Mapping[int, Any]) -> Iterator[dict[int, Any]]:
    piece: dict[int, Any] = {}
    size = 0
    for number, kept in state.items():
        tensors = [leaf for _, leaf in leaves(kept) if isinstance(leaf, torch.Tensor)]
        own = sum(one.numel() * one.element_size() for one in tensors)
        if piece and size + own > _PIECE_BYTES:
            yield piece
            piece, size = {}, 0
        piece[number], size = kept, size + own
    if piece:
        yield piece


def _to_cpu(leaf: Any) -> Any:
    return leaf.detach().cpu() if isinstance(leaf, torch.Tensor) else leaf


def _plain(leaf: Any) -> Any:
    """Return an option as something that travels and compares: a learning rate may be a tensor."""
    if isinstance(leaf, torch.Tensor):
        return leaf.tolist() if leaf.numel() == 1 else None
    return leaf if isinstance(leaf, (bool, int, float, str, type(None))) else None


def _same(one: Any, other: Any) -> bool:
    return bool(one == other or (one != one and other != other))  # noqa: PLR0124 - NaN on both


def _joint(optimizer: torch.optim.Optimizer, why: str, values: Mapping[str, Any]) -> ModuleError:
    return ModuleError(
        "strategy.joint-optimizer",
        f"{type(optimizer).__name__} cannot be shared out over ranks: {why}",
        values={"optimizer": type(optimizer).__name__, **values},
        because="with zero1 a rank steps on its part of the parameters, each of which is updated by itself",
        hint="pass strategy='ddp', where each rank steps on all of them",
    )


def _in_parts(optimizer: torch.optim.Optimizer) -> CheckpointError:
    return CheckpointError(
        "checkpoint.in-parts",
        f"the state of {type(optimizer).__name__} is in parts, and the ranks that had the others are gone",
        values={"optimizer": type(optimizer).__name__},
        because="a fit that fails cannot bring to rank 0 what each rank has of the optimizers' state",
        hint="save the weights: trainer.save_checkpoint(path, weights_only=True), "
        "or go on from a checkpoint that was saved within the fit",
    )
