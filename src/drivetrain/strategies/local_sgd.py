"""Post-local SGD: after a warm-up ranks step alone, and average their parameters now and then."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, final

import torch
from torch.nn.parameter import is_lazy

from drivetrain.base.errors import ModuleError
from drivetrain.collectives.groups import leave, neighbours
from drivetrain.collectives.torch import TorchCollectives
from drivetrain.strategies.averaging import Averaging
from drivetrain.strategies.clipping import clip_whole
from drivetrain.strategies.mean import average_tensors
from drivetrain.strategies.strategy import Parts, Strategy


@final
class LocalSGDRuntime(Strategy):
    """The whole model on each rank; gradients are averaged in the warm-up, and parameters afterwards.

    Steps are counted by the optimizer that takes the most of them. After a step that is a multiple of
    ``period`` from the warm-up's end, the ranks' models become their mean; of several optimizers once all had
    their turn, when the next batch comes. The optimizers' states stay each rank's own.

    See Lin et al., "Don't Use Large Mini-Batches, Use Local SGD" (2018).
    """

    has_whole_model = True
    keeps_ranks_alike = False

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self._averaging = Averaging(self, "local_sgd")
        self._period = int(self.options.get("period", 8))
        self._warmup = int(self.options.get("warmup_steps", 100))
        self._group_period = int(self.options.get("group_period") or 0)
        self._group_size = int(self.options.get("group_size") or 1)
        self._group: TorchCollectives | None = None
        """This rank's neighbours, where ranks average with them more often than with all."""
        self._module: torch.nn.Module | None = None
        self._optimizers: list[torch.optim.Optimizer] = []
        self._steps: list[int] = []
        self._base = self._count = 0
        """Optimizer steps before these optimizers, and all in all."""
        self._settled = 0
        """The count when a step of several optimizers last began: it was averaged for, if it had to be."""
        self._is_local = self._is_apart = False
        """Whether the warm-up is over; whether the ranks' models may differ."""
        self._own: list[torch.Tensor] | None = None
        """This rank's own values, while the module has those of all ranks."""
        self._handles: list[Any] = []

    def setup(
        self, module: torch.nn.Module, step: Callable[..., Any] | None, *, one_backward: bool = True
    ) -> None:
        """Convert and move the module, and wrap its step; rank 0's parameters and buffers are broadcast.

        Raises:
            ModuleError [strategy.group-size]: the ranks do not divide into groups of ``group_size``, or
                one of ``group_size`` and ``group_period`` is there without the other.
        """
        self._averaging.setup(module, step, one_backward=one_backward)
        self._module = module
        if self.ranks.world_size % self._group_size or (self._group_size > 1) is not (self._group_period > 0):
            raise self._no_groups()
        if self.ranks.world_size > self._group_size > 1 and step is not None:
            self._group = neighbours(self._group_size, self.device)

    def _no_groups(self) -> ModuleError:
        world_size, size = self.ranks.world_size, self._group_size
        sizes = [one for one in range(2, world_size) if world_size % one == 0]
        fits = f"a group_size of {' or '.join(map(str, sizes))} with a group_period" if sizes else ""
        return ModuleError(
            "strategy.group-size",
            f"{world_size} ranks do not divide into groups of {size}"
            if world_size % size
            else "local_sgd has one of group_size and group_period",
            values={"group_size": size, "group_period": self._group_period, "world_size": world_size},
            because="neighbouring ranks average every group_period steps, in groups of one size",
            hint=f"pass {fits}, or neither" if fits else "leave both out",
        )

    def teardown(self, module: torch.nn.Module) -> None:
        """Drop the wrapper and the watch on the optimizers, and bring the module back to the CPU."""
        self._unwatch()
        self._optimizers, self._steps, self._module = [], [], None
        self._is_local = self._is_apart = False
        if self._group is not None:
            leave(self._group)
            self._group = None
        self._averaging.teardown(module)

    def setup_optimizers(self, optimizers: Sequence[torch.optim.Optimizer]) -> None:
        """Watch the optimizers' steps, which say when ranks average."""
        self._unwatch()
        self._optimizers = list(optimizers)
        self._steps, self._base = [0] * len(self._optimizers), self._count
        if self.ranks.world_size > 1:
            self._handles = [one.register_step_post_hook(self._stepped) for one in self._optimizers]

    def _unwatch(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def _stepped(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        index = next(i for i, one in enumerate(self._optimizers) if one is optimizer)
        self._steps[index] += 1
        count = self._base + self._steps[index]
        if count <= self._count:
            return  # another optimizer has taken this step before
        self._count = count
        if len(self._optimizers) == 1:
            self._settle()  # others wait for the next batch: they may not have stepped yet

    def _settle(self) -> None:
        """Average, if the steps that were taken ask for it and nobody has trained since."""
        after = self._count - self._warmup
        if not self._is_local or not self._is_apart or after <= 0:
            return
        if after % self._period == 0:
            average_tensors(self._tensors(), self.collectives)
            self._is_apart = False
        elif self._group is not None and after % self._group_period == 0:
            average_tensors(self._tensors(), self._group)

    def _tensors(self) -> list[torch.Tensor]:
        """Return what ranks change apart: parameters, and buffers such as running statistics."""
        module = self._module
        assert module is not None  # noqa: S101 - set by `setup`
        tensors = (*module.parameters(), *module.buffers())
        return [one.detach() for one in tensors if not is_lazy(one)]

    def share_buffers(self, module: torch.nn.Module) -> None:
        """Give every rank rank 0's buffers in the warm-up; afterwards they are averaged with the model."""
        if not self._is_local:
            self._averaging.share_buffers(module)

    def training_step(self, *arguments: Any) -> Any:
        """Run the step: through torch's wrapper in the warm-up, and as it is afterwards."""
        if not self._is_local and self._count >= self._warmup and self.ranks.world_size > 1:
            assert self._module is not None  # noqa: S101 - set by `setup`
            self._averaging.share_buffers(self._module)  # as before each forward until now
            self._go_alone()
        if self._is_local:
            if len(self._optimizers) > 1 and self._settled != self._count:
                self._settle()
            self._settled, self._is_apart = self._count, True
        elif self._averaging.follow():
            self._has_seen_gradients = False
        return self._averaging.step(*arguments)

    def _go_alone(self) -> None:
        self._averaging.stop()
        self._is_local = self._has_seen_gradients = True

    def no_sync(self) -> AbstractContextManager[Any]:
        """Return torch's own context in the warm-up; afterwards nothing is averaged in a backward."""
        return nullcontext() if self._is_local else self._averaging.no_sync()

    def combine_gradients(self, *, late: bool) -> None:
        """Average, in the warm-up, what a backward left, where torch's wrapper does not."""
        if not self._is_local:
            self._averaging.combine_gradients(late=late)

    def bytes_beside(self, module: torch.nn.Module) -> int:
        """Return the size of the warm-up's buckets; the average takes no more."""
        return self._averaging.bytes_beside(module)

    def reduces_in(self, module: torch.nn.Module) -> tuple[torch.dtype, ...]:
        """Return the types of the trainable parameters, in which the warm-up averages gradients."""
        return self._averaging.reduces_in(module)

    def clip_gradients(self, optimizer: torch.optim.Optimizer, clip_val: float, algorithm: str) -> None:
        """Clip by torch's own functions: after the warm-up each rank clips its own gradients."""
        clip_whole(optimizer, clip_val, algorithm)

    def check_gradients(self) -> None:
        """Refuse, in the warm-up, parameters without gradient: torch would never average their bucket."""
        self._averaging.check_gradients()

    @contextlib.contextmanager
    def _joined(self) -> Iterator[None]:
        tensors = self._tensors()
        own = [one.clone() for one in tensors]
        average_tensors(tensors, self.collectives)
        self._own = own
        try:
            yield
        finally:
            self._own = None
            torch._foreach_copy_(tensors, own)

    def joint(
        self,
        module: torch.nn.Module,  # noqa: ARG002 - there is one
    ) -> AbstractContextManager[None]:
        """Return a context in which the module is the ranks' mean; each rank goes on from its own."""
        return self._joined() if self._is_apart and self._own is None else nullcontext()

    def gather_model(self, module: torch.nn.Module) -> None:  # noqa: ARG002 - there is one
        """Make the module the ranks' mean, at the end of a run."""
        if self._is_apart:
            average_tensors(self._tensors(), self.collectives)
            self._is_apart = False

    def model_state(self, module: torch.nn.Module) -> dict[str, Any]:
        """Return the state_dict of the ranks' mean."""
        with self.joint(module):
            state = module.state_dict()
            return {name: _copied(one) for name, one in state.items()} if self._own is not None else state

    def load_model_state(self, module: torch.nn.Module, state: Mapping[str, Any]) -> None:
        """Load the module's own state_dict on each rank."""
        module.load_state_dict(state, strict=getattr(module, "strict_loading", True))

    def optimizer_state(self, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
        """Return the state_dict of this rank's optimizer; those of all ranks are in `rank_state`."""
        return optimizer.state_dict()

    def load_optimizer_state(self, optimizer: torch.optim.Optimizer, state: Mapping[str, Any]) -> None:
        """Load the optimizer's own state_dict on each rank."""
        optimizer.load_state_dict(dict(state))

    def rank_state(self, module: torch.nn.Module) -> dict[str, Any]:  # noqa: ARG002 - there is one
        """Return the count of steps and, after the warm-up, this rank's own model and optimizers."""
        state: dict[str, Any] = {"steps": self._count}
        if self._is_local:
            own = self._tensors() if self._own is None else self._own
            state["tensors"] = [one.cpu().clone() for one in own]
            # Of a moment: a validation that is running may be saved later.
            state["optimizers"] = [copy.deepcopy(one.state_dict()) for one in self._optimizers]
            state |= {"is_apart": self._is_apart, "settled": self._settled}
        return state

    def load_rank_state(
        self,
        module: torch.nn.Module,  # noqa: ARG002 - there is one
        of_ranks: Sequence[Mapping[str, Any]],
        optimizer_steps: int,
    ) -> None:
        """Go on with each rank's own model and optimizers; on other ranks, from the mean and rank 0's."""
        mine = of_ranks[self.ranks.rank] if len(of_ranks) == self.ranks.world_size else None
        first = of_ranks[0] if of_ranks else {}
        self._count = self._base = int(first.get("steps", optimizer_steps))
        if mine is None or "tensors" not in mine:
            return
        self._go_alone()
        for one, value in zip(self._tensors(), mine["tensors"], strict=True):
            one.copy_(value)
        for optimizer, state in zip(self._optimizers, mine["optimizers"], strict=True):
            optimizer.load_state_dict(copy.deepcopy(dict(state)))
        self._is_apart, self._settled = bool(mine["is_apart"]), int(mine["settled"])


def _copied(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, torch.Tensor) else value
