"""Averaging gradients over ranks that each hold the whole model: a part that strategies hold."""

from __future__ import annotations

import gc
import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, final

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.nn.parameter import is_lazy

from drivetrain.base.errors import DrivetrainWarning, ModuleError, Notice
from drivetrain.strategies.comm_hooks import CommHook, make_hook, no_backward
from drivetrain.strategies.forward import StepForward
from drivetrain.strategies.mean import average_gradients
from drivetrain.strategies.strategy import Strategy
from drivetrain.strategies.trainable import Trainable
from drivetrain.strategies.use import Use, some, told, unused_since

_OPTIONS = (
    "static_graph",
    "gradient_as_bucket_view",
    "broadcast_buffers",
    "bucket_cap_mb",
)

# torch 2.13 calls the option by what it does: buffers are synchronised before each forward.
_KNOWN = inspect.signature(DistributedDataParallel).parameters
_RENAMED = {"broadcast_buffers": "forward_sync_buffers"} if "forward_sync_buffers" in _KNOWN else {}


@final
class Averaging:
    """torch's DistributedDataParallel around the training step, so that the step's forward passes through it.

    A world of one needs no averaging, and runs the step as it is.
    """

    def __init__(self, strategy: Strategy, name: str) -> None:
        self._strategy = strategy
        self._name = name
        self._options = strategy.options
        self._step: Callable[..., Any] | None = None
        self._plain_step: Callable[..., Any] | None = None
        self._module: torch.nn.Module | None = None
        self._trainable: Trainable | None = None
        """What was trainable when the wrapper was made; None where there is nothing to wrap."""
        self._whole: torch.nn.Module | None = None
        """The module, where gradients are averaged by us and not within backward."""
        self._use: Use | None = None
        """Which parameters the first backward uses, where the wrapper looks only if it is needed."""
        said = self._options.get("find_unused_parameters")
        self._is_auto = said == "auto" and not self._options.get("static_graph")
        self._finds = said is True or self._is_auto
        """Whether the wrapper looks, in each step, for parameters without gradient."""
        self._is_outdated = False
        self._hook: CommHook | None = None
        """What sends gradients in another way than as they are."""

    def setup(
        self, module: torch.nn.Module, step: Callable[..., Any] | None, *, one_backward: bool = True
    ) -> None:
        """Convert and move the module, and wrap its step; rank 0's parameters and buffers are broadcast.

        torch's wrapper expects one backward a step, through every parameter. Where there are several, it is
        left out, and gradients are averaged after each.
        """
        self._strategy.precision.convert_module(module)
        module.to(self._strategy.device)
        self._step, self._plain_step, self._module = step, step, module
        self._whole = self._trainable = None
        if self._strategy.ranks.world_size == 1:
            return
        if step is not None:
            self._strategy.sync_layers(module)
        said = self._options.get("comm_hook")
        if step is not None and said is not None and not one_backward:
            raise no_backward(said, self._name)
        if step is not None and (said is not None or "powersgd_rank" in self._options):
            self._hook = make_hook(said or "", self._options, module, self._strategy.precision)
        if step is None or not one_backward:
            self._whole = None if step is None else module
            self._broadcast([*module.parameters(), *module.buffers()])
            return
        self._wrap()

    def _wrap(self) -> None:
        """Put torch's wrapper around the step, for the parameters that are trainable now."""
        module, step = self._module, self._plain_step
        assert module is not None  # noqa: S101 - set by `setup`
        assert step is not None  # noqa: S101 - as above
        self._trainable, self._is_outdated = Trainable(module), False
        if not any(parameter.requires_grad for parameter in module.parameters()):
            self._step = step
            return
        on_cpu = self._strategy.device.type == "cpu"
        said = {
            _RENAMED.get(name, name): self._options[name]
            for name in _OPTIONS
            if self._options.get(name) is not None
        } | {"find_unused_parameters": self._finds}
        # torch wants no device_ids for a module on the CPU.
        self._step = DistributedDataParallel(
            StepForward(module, step), device_ids=None if on_cpu else [self._strategy.device.index], **said
        )
        if self._is_auto and self._finds:
            self._use = Use(module)
        if self._hook is not None:
            hook = self._hook
            # torch asks for a function, and looks at what its arguments say they are.
            call = lambda group, bucket: hook(group, bucket)  # noqa: E731, PLW0108 - annotations would be in its way
            self._step.register_comm_hook(dist.group.WORLD, call)

    def _rewrap(self) -> None:
        """Make the wrapper anew: it averages what was trainable when it was made, and nothing else."""
        module = self._module
        assert module is not None  # noqa: S101 - set by `setup`
        self._step = None
        gc.collect()  # as in `teardown`: the old one's hooks go with it
        # What was frozen within an accumulation window may still be stepped with.
        self._average([one for one in module.parameters() if not one.requires_grad])
        self._wrap()

    def stop(self) -> None:
        """Take the wrapper off: from now on the step runs as it is, and nothing is averaged."""
        self._step, self._whole, self._trainable, self._use = self._plain_step, None, None, None
        gc.collect()  # as in `teardown`

    def _broadcast(self, tensors: list[torch.Tensor]) -> None:
        with torch.no_grad():
            for tensor in tensors:
                if not is_lazy(tensor):
                    tensor.copy_(self._strategy.collectives.broadcast(tensor.detach(), source=0))

    def share_buffers(self, module: torch.nn.Module) -> None:
        """Give every rank rank 0's buffers, unless the user keeps them apart with ``broadcast_buffers``."""
        if self._strategy.ranks.world_size > 1 and self._options.get("broadcast_buffers") is not False:
            self._broadcast(list(module.buffers()))

    def teardown(self, module: torch.nn.Module) -> None:
        """Drop the wrapper, which takes its gradient hooks with it, and bring the module back to the CPU."""
        was_wrapped = isinstance(self._step, DistributedDataParallel)
        self._step = self._plain_step = self._module = self._whole = self._trainable = None
        self._use = self._hook = None
        if was_wrapped:
            # torch's wrapper is part of a reference cycle. It must not outlive its process group, whose
            # threads it would wait for, so the cycle is collected now and not at some later moment.
            gc.collect()
        self._strategy.unsync_layers(module)
        self._strategy.precision.restore_module(module)
        if self._strategy.device.type != "cpu":
            module.cpu()

    def follow(self) -> bool:
        """Make ready for a step; return whether other parameters are trained now, to be looked at again."""
        if self._whole is not None and self._options.get("broadcast_buffers") is not False:
            self._broadcast(list(self._whole.buffers()))
        elif self._trainable is not None and (self._is_outdated or self._trainable.has_changed):
            # Of other parameters others may be unused.
            self._finds |= self._is_auto and self._trainable.has_changed
            self._rewrap()
            return True
        return False

    def step(self, *arguments: Any) -> Any:
        """Run the step through the wrapper."""
        assert self._step is not None, "the strategy was not set up to train"  # noqa: S101 - our own bug
        with self._strategy.precision.forward_context(self._strategy.device.type):
            try:
                return self._step(*arguments)
            except RuntimeError as error:
                unused = unused_since(error, self._module) if self._module is not None else []
                if not unused:
                    raise
                raise self._refusal(unused, "the step before") from error

    def no_sync(self) -> AbstractContextManager[Any]:
        """Return torch's own context, in which gradients are added up without being averaged."""
        if isinstance(self._step, DistributedDataParallel):
            return self._step.no_sync()
        return nullcontext()

    def combine_gradients(self, *, late: bool) -> None:
        """Average what a backward left, where torch's wrapper does not; what is averaged already stays so.

        A rank that has no gradient for a parameter counts as zero, as long as another one has.

        Collectives:
            one all_reduce of a byte a parameter, and one of the gradients for each type of them.
        """
        wrapped = isinstance(self._step, DistributedDataParallel)
        module = self._step if wrapped and late else self._whole
        if not isinstance(module, torch.nn.Module):
            return
        self._average([one for one in module.parameters() if one.requires_grad])

    def _average(self, parameters: list[torch.nn.Parameter]) -> None:
        average_gradients(parameters, self._strategy.collectives, self._strategy.device)

    def reduces_in(self, module: torch.nn.Module) -> tuple[torch.dtype, ...]:
        """Return the types in which gradients are averaged: their own, unless a hook shortens them."""
        if self._strategy.ranks.world_size == 1:
            return ()
        if self._hook is not None and self._hook.dtype is not None:
            return (self._hook.dtype,)
        return tuple(dict.fromkeys(one.dtype for one in module.parameters() if one.requires_grad))

    def rank_state(self) -> dict[str, Any]:
        """Return what a hook remembers on this rank."""
        state = {} if self._hook is None else self._hook.state()
        return {"hook": state} if state else {}

    def load_rank_state(self, of_ranks: Sequence[Mapping[str, Any]]) -> None:
        """Take up what hooks remembered, if this is a run with one that does."""
        if self._hook is not None and self._hook.state() and of_ranks and "hook" in of_ranks[0]:
            ranks = self._strategy.ranks
            self._hook.load_state([one["hook"] for one in of_ranks], ranks.rank, ranks.world_size)

    def bytes_beside(self, module: torch.nn.Module) -> int:
        """Return the size of the buckets, each gradient once more, unless gradients are views of them."""
        if self._strategy.ranks.world_size == 1 or self._options.get("gradient_as_bucket_view"):
            return 0
        return sum(
            one.numel() * one.element_size()
            for one in module.parameters()
            if one.requires_grad and not is_lazy(one)
        )

    def check_gradients(self) -> None:
        """Look at parameters without gradient: their bucket is never complete, so it is never averaged.

        Raises:
            ModuleError [strategy.unused-parameters]: there are some, and the wrapper does not look for them.

        torch itself notices at the next step, with indices instead of names, and after the last never.
        """
        use, self._use = self._use, None
        if use is not None:
            self._choose(use)
        if self._finds or self._options.get("static_graph") or use is not None:
            return
        if not isinstance(self._step, DistributedDataParallel):
            return
        parameters = self._step.module.module.named_parameters()
        unused = [name for name, one in parameters if one.requires_grad and one.grad is None]
        if unused:
            raise self._refusal(unused, "the first step")

    def _choose(self, use: Use) -> None:
        """Stop looking for parameters without gradient if no rank has any; otherwise say which.

        Collectives:
            one object of the names; every rank must call.
        """
        of_ranks = self._strategy.collectives.all_gather_object(use.unused())
        if not any(of_ranks):
            self._finds, self._is_outdated = False, True
        elif self._strategy.ranks.is_zero:
            text = (
                f"{told(of_ranks)}. From now on {self._name} looks for such parameters each step, which is "
                "a walk through the graph: freeze them (requires_grad_(False)) or use them in the loss; "
                "find_unused_parameters=true looks without this word"
            )
            warnings.warn(str(Notice("strategy.unused-parameters", text)), DrivetrainWarning, stacklevel=2)

    def _refusal(self, unused: list[str], when: str) -> ModuleError:
        return ModuleError(
            "strategy.unused-parameters",
            f"{len(unused)} parameters got no gradient in {when}: {some(unused)}",
            values={"parameters": unused, "find_unused_parameters": False},
            because=f"{self._name} averages gradients bucket by bucket, and waits for all of a bucket",
            hint="freeze them (requires_grad_(False)), use them in the loss, "
            f"or pass strategy='{self._name}(find_unused_parameters=auto)', which looks in each step",
        )
