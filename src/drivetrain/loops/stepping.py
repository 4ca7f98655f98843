"""How a batch becomes a step: forward, gradients, clipping, optimizers, in the order of the hooks."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, Protocol, TypeAlias, final

import torch

from drivetrain.base.errors import ModuleError
from drivetrain.data import Share
from drivetrain.events import is_unused
from drivetrain.loops.context import Context, arguments_taken
from drivetrain.loops.optimization import Clipping, Stepped, parameters_of, step_schedulers
from drivetrain.loops.output import read_loss, read_weight
from drivetrain.loops.window import Window
from drivetrain.strategies.closure import wants_closure
from drivetrain.strategies.own_steps import (
    Kept,
    OwnSteps,
    give_back,
    scaled_closure,
    withhold,
)

Take: TypeAlias = Callable[[Any, int, Share], Any]
"""Takes a batch, its number and its share; returns what the step returned."""

_WHICH = ("optimizer_idx", "optimizer_name")


def which_optimizer(step: Callable[..., Any]) -> str | None:
    """Return the argument by which a training_step is told one of several optimizers, or None."""
    try:
        names = inspect.signature(step).parameters
    except (TypeError, ValueError):
        return None
    return next((name for name in _WHICH if name in names), None)


class Stepper(Protocol):
    """Takes a fit's steps, in one of the two ways of optimization."""

    windows: list[Window]
    """One for each set of optimizers that step together."""

    def take(self, factor: int) -> Take:
        """Return the function that takes a batch, ``factor`` of them a step."""

    def finish(self) -> None:
        """Step with what is left in an open window: the data ended."""

    def manual_backward(self, loss: torch.Tensor) -> None:
        """Compute gradients for a module that optimizes by hand."""

    def clip(self, optimizer: torch.optim.Optimizer, clip_val: float | None, algorithm: str | None) -> None:
        """Clip an optimizer's gradients over all ranks."""


@final
class AutomaticStepper:
    """Automatic optimization: the loop computes gradients and steps every optimizer.

    With one loss, all optimizers step with its gradients. A training_step with ``optimizer_idx`` or
    ``optimizer_name`` is called for each optimizer in turn, with only that one's parameters taking gradients.
    ``planned`` tells how many of the coming batches, at most as many as it is given, belong to one step.
    """

    def __init__(self, context: Context, planned: Callable[[int], int]) -> None:
        self._context, self._planned = context, planned
        self._which = which_optimizer(context.module.training_step)
        sets = [[one] for one in context.stepped] if self._which else [context.stepped]
        num_arguments = arguments_taken(context.module.training_step, 3 if self._which else 2)
        self._groups = [_Group(context, stepped, num_arguments) for stepped in sets]
        self.windows = [group.window for group in self._groups]
        self._has_step_schedulers = any(one.interval == "step" for one in context.schedulers)

    def take(self, factor: int) -> Take:
        """Return the function that takes a batch: a short one where nothing special is asked for."""
        if self._which is None and factor == 1 and self._groups[0].is_plain:
            return self._plain()
        if factor > 1 and any(group.reevaluates for group in self._groups):
            raise _one_batch(self._context.module, factor)

        def take(batch: Any, index: int, share: Share) -> Any:
            planned = self._planned(factor)
            outputs = [self._one(group, batch, index, share, planned) for group in self._groups]
            if any(group.saw_loss for group in self._groups):
                self._context.progress.samples += share.total
            self._count(has_stepped=any(group.has_stepped for group in self._groups))
            return outputs if self._which else outputs[0]

        return take

    def finish(self) -> None:
        """Step with what is left in an open window: the data ended."""
        for group in self._groups:
            group.finish()
        self._count(has_stepped=any(group.has_stepped for group in self._groups))

    def manual_backward(self, loss: torch.Tensor) -> None:
        """Refuse: the loop computes the gradients.

        Raises:
            ModuleError [module.manual]: always.
        """
        raise ModuleError(
            "module.manual",
            f"{type(self._context.module).__name__} calls manual_backward in automatic optimization",
            values={"automatic_optimization": True, "loss": loss.detach()},
            because="there the loop computes gradients from the loss that training_step returns",
            hint="return the loss, or set self.automatic_optimization = False in __init__",
        )

    def clip(self, optimizer: torch.optim.Optimizer, clip_val: float | None, algorithm: str | None) -> None:
        """Clip an optimizer's gradients."""
        clip(self._context, optimizer, clip_val, algorithm)

    def _one(self, group: _Group, batch: Any, index: int, share: Share, planned: int) -> Any:
        if self._which is None:
            return group.take((batch, index), share, planned)
        one = group.stepped[0]
        which = one.number if self._which == "optimizer_idx" else one.name
        with self._context.module.toggled_optimizer(one.optimizer):
            return group.take((batch, index, which), share, planned)

    def _count(self, *, has_stepped: bool) -> None:
        if has_stepped:
            self._context.strategy.rescale()
            self._context.progress.global_step += 1
            if self._has_step_schedulers:
                step_schedulers(self._context, "step", self._context.progress.global_step)

    def _plain(self) -> Take:  # noqa: C901 - the hot path: a branch costs less than a call
        # One optimizer, one batch a step, nothing replaced: everything is looked up here, once.
        context = self._context
        progress, strategy, module = context.progress, context.strategy, context.module
        world_size, optimizer, window = strategy.ranks.world_size, context.optimizers[0], self.windows[0]
        training_step, num_arguments = strategy.training_step, arguments_taken(module.training_step, 2)
        before_zero, before_backward, after_backward, before_step = _hooks(context)
        has_step_schedulers, is_alone = self._has_step_schedulers, world_size == 1
        scales = strategy.precision.scales_loss

        def take(batch: Any, index: int, share: Share) -> Any:  # noqa: C901 - as above
            output = training_step(batch, index) if num_arguments > 1 else training_step(batch)
            loss = read_loss(output, module, world_size)
            if loss is None:
                return None
            if not is_alone:
                window.take(share, 1)
                window.count()
                loss = window.scaled(loss, share, read_weight(output))
            for call in before_zero:
                call(optimizer)
            optimizer.zero_grad()
            for call in before_backward:
                call(loss)
            strategy.backward(loss)
            for call in after_backward:
                call()
            if not is_alone:
                window.close(parameters_of(optimizer), strategy.device)
            if strategy.unscale(optimizer):
                for call in before_step:
                    call(optimizer)
                optimizer.step()
            if scales:
                strategy.rescale()
                _note_step(optimizer)
            progress.global_step += 1
            progress.samples += share.total
            if has_step_schedulers:
                step_schedulers(context, "step", progress.global_step)
            return output

        return take


@final
class _Group:
    """Optimizers that step together, with the gradients of one loss."""

    def __init__(self, context: Context, stepped: list[Stepped], num_arguments: int) -> None:
        module = context.module
        self._context, self._strategy, self._module = context, context.strategy, module
        self.stepped, self.window = stepped, Window(context.strategy.collectives)
        self.saw_loss = self.has_stepped = False
        self._is_late = False
        """Whether gradients of this window were not combined over ranks yet."""
        self._num_arguments = num_arguments
        hooks = _hooks(context)
        self._before_zero, self._before_backward, self._after_backward, self._before_step = hooks
        self._backward = _override(context, "backward")
        self._zero_grad = _override(context, "optimizer_zero_grad")
        self._optimizer_step = _override(context, "optimizer_step")
        self._clips: Callable[..., None] | None = None
        if not is_unused(module.configure_gradient_clipping):
            self._clips = context.seen(module, "configure_gradient_clipping")
        elif any(one.clip_val is not None for one in stepped):
            self._clips = self._clip
        self.reevaluates = any(wants_closure(one.optimizer) for one in stepped)
        precision = context.strategy.precision
        if self.reevaluates and precision.scales_loss:
            raise scaled_closure(stepped[0].optimizer, precision.name)
        if self.reevaluates and len(stepped) > 1:
            raise _alone(module, stepped)

    def _clip(self, optimizer: torch.optim.Optimizer, clip_val: float | None, algorithm: str | None) -> None:
        clip(self._context, optimizer, clip_val, algorithm)

    @property
    def is_plain(self) -> bool:
        """Whether a step is forward, backward and one optimizer's step, with hooks around them."""
        replaced = (self._backward, self._zero_grad, self._optimizer_step, self._clips)
        return len(self.stepped) == 1 and not self.reevaluates and not any(replaced)

    def take(self, arguments: tuple[Any, ...], share: Share, planned: int) -> Any:
        """Take a batch, and an optimizer step when the window closes with it."""
        opens, self.has_stepped = not self.window.is_open, False
        self._is_late = self._is_late and not opens
        if not self.window.take(share, planned):
            self._is_late = True
            with self._strategy.no_sync():
                return self._gradients(arguments, share, opens=opens)[0]
        found: list[Any] = []

        def gradients() -> Any:
            if found:  # an optimizer that evaluates again; its window has one batch
                self.window.take(share, planned)
            found.append(self._gradients(arguments, share, opens=opens))
            return found[-1][1]

        self._step_all(gradients)
        return found[0][0]

    def finish(self) -> None:
        """Step with the gradients that are there."""
        self.has_stepped = False
        if self.window.is_open:
            self._strategy.combine_gradients(late=self._is_late)
            self._step_all(lambda: None)

    def _gradients(self, arguments: tuple[Any, ...], share: Share, *, opens: bool) -> tuple[Any, Any]:
        """Run the step and add its gradients to the window's; return its output and loss."""
        output = self._strategy.training_step(*arguments[: self._num_arguments])
        loss = read_loss(output, self._module, self._strategy.ranks.world_size)
        self.window.count()
        self.saw_loss = loss is not None
        if loss is not None:
            loss = self.window.scaled(loss, share, read_weight(output))
        if opens:
            self._clear(arguments[1])
        if loss is None:
            return output, None
        for call in self._before_backward:
            call(loss)
        self._strategy.backward(loss, self._backward)
        for call in self._after_backward:
            call()
        return output, loss

    def _clear(self, index: int) -> None:
        for one in self.stepped:
            for call in self._before_zero:
                call(one.optimizer)
            if self._zero_grad is not None:
                self._zero_grad(self._context.progress.epoch, index, one.optimizer)
            else:
                one.optimizer.zero_grad()

    def _step_all(self, gradients: Callable[[], Any]) -> None:
        first, *others = self.stepped

        def lead() -> Any:
            loss = gradients()
            parameters = [one for each in self.stepped for one in parameters_of(each.optimizer)]
            self.has_stepped = self.window.close(parameters, self._strategy.device)
            self._prepare(first)
            return self._joint(loss) if self.reevaluates else loss

        self._step(first, lead)
        for one in others:
            self._step(one, functools.partial(self._prepare, one))

    def _joint(self, loss: torch.Tensor | None) -> torch.Tensor | None:
        """Return the loss of all ranks' samples: by it an optimizer decides whether it evaluates again."""
        ranks = self._strategy.ranks
        if loss is None or ranks.world_size == 1:
            return loss
        mean = self._strategy.collectives.all_reduce(loss.detach().clone(), "mean")
        return torch.mul(mean, self.window.factor)

    def _prepare(self, one: Stepped) -> None:
        if not self.has_stepped:
            return
        one.is_ready = self._strategy.unscale(one.optimizer)
        if not one.is_ready:
            _note_step(one.optimizer)
            return
        for call in self._before_step:
            call(one.optimizer)
        if self._clips is not None:
            self._clips(one.optimizer, one.clip_val, one.clip_algorithm)

    def _step(self, one: Stepped, closure: Callable[[], Any]) -> None:
        one.is_ready = False
        if self._optimizer_step is not None:
            called: list[bool] = []

            def noted() -> Any:
                called.append(True)
                loss = closure()
                if self.has_stepped and not one.is_ready:
                    withheld.extend(withhold(one.optimizer))
                return loss

            progress, withheld = self._context.progress, Kept()
            self._optimizer_step(progress.epoch, progress.steps, one.optimizer, noted)
            give_back(withheld)
            if not called:
                raise _never_called(self._module)
        elif self.reevaluates:
            one.optimizer.step(closure)
        else:
            closure()
            if one.is_ready:
                one.optimizer.step()


@final
class ManualStepper:
    """Manual optimization: training_step computes gradients and steps; here it is only counted.

    A batch in which any optimizer stepped is one step of the training loop.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self.windows: list[Window] = []
        self._share: Share | None = None
        self._has_stepped = False
        hooks = _hooks(context)
        _, self._before_backward, self._after_backward, self._before_step = hooks
        self._own = OwnSteps(context.strategy, self._before)
        for one in context.optimizers:
            context.handles += [*self._own.watch(one), one.register_step_post_hook(self._after)]

    def take(self, factor: int) -> Take:  # noqa: ARG002 - refused with manual optimization
        """Return the function that takes a batch."""
        context, progress, strategy = self._context, self._context.progress, self._context.strategy
        num_arguments = arguments_taken(context.module.training_step, 2)
        has_optimizers = bool(context.optimizers)

        def take(batch: Any, index: int, share: Share) -> Any:
            self._share, self._has_stepped = share, not has_optimizers
            output = strategy.training_step(*(batch, index)[:num_arguments])
            self._own.settle()
            progress.samples += share.total
            progress.global_step += self._has_stepped
            return output

        return take

    def finish(self) -> None:
        """Leave open what training_step left open."""

    def manual_backward(self, loss: torch.Tensor) -> None:
        """Compute gradients of the mean of all ranks' losses, weighted by their batches' samples."""
        self._own.settle()
        if self._share is not None and self._share.weight != 1.0:
            loss = loss * self._share.weight
        for call in self._before_backward:
            call(loss)
        self._context.strategy.backward(loss, _override(self._context, "backward"))
        for call in self._after_backward:
            call()

    def clip(self, optimizer: torch.optim.Optimizer, clip_val: float | None, algorithm: str | None) -> None:
        """Clip an optimizer's gradients; those that overflowed will not be stepped with, and stay."""
        if self._context.strategy.unscale(optimizer):
            clip(self._context, optimizer, clip_val, algorithm)

    def _before(self, optimizer: torch.optim.Optimizer) -> None:
        for call in self._before_step:
            call(optimizer)

    def _after(self, *_: Any) -> None:
        self._has_stepped = True
        self._context.progress.optimizer_steps += 1


def clip(
    context: Context, optimizer: torch.optim.Optimizer, clip_val: float | None, algorithm: str | None
) -> None:
    """Clip an optimizer's gradients; None takes what is said of that optimizer."""
    said = next((one for one in context.stepped if one.optimizer is optimizer), None)
    wanted = Clipping.read(
        clip_val if clip_val is not None or said is None else said.clip_val,
        algorithm if algorithm is not None or said is None else said.clip_algorithm,
    )
    if wanted.val is not None:
        context.strategy.clip_gradients(optimizer, wanted.val, wanted.algorithm)


def _note_step(optimizer: torch.optim.Optimizer) -> None:
    """Tell torch of a step that may have been left out: it would warn of schedulers that step before any."""
    optimizer._opt_called = True  # type: ignore[attr-defined]  # noqa: SLF001 - no public way


def _override(context: Context, name: str) -> Callable[..., Any] | None:
    return None if is_unused(getattr(context.module, name)) else context.seen(context.module, name)


def _hooks(context: Context) -> tuple[Any, Any, Any, Any]:
    calls = context.events.calls
    return (
        calls("on_before_zero_grad"),
        calls("on_before_backward"),
        calls("on_after_backward"),
        calls("on_before_optimizer_step"),
    )


def _alone(module: object, stepped: list[Stepped]) -> ModuleError:
    return ModuleError(
        "module.closure",
        f"{type(module).__name__} has an optimizer that evaluates the loss itself, beside others",
        values={"optimizers": [type(one.optimizer).__name__ for one in stepped]},
        because="each evaluation changes the gradients that the other optimizers would step with",
        hint="give training_step an argument optimizer_idx, so that it is called for each optimizer",
    )


def _one_batch(module: object, factor: int) -> ModuleError:
    return ModuleError(
        "module.closure",
        f"{type(module).__name__} has an optimizer that evaluates the loss itself; a step takes {factor}",
        values={"accumulate_grad_batches": factor},
        because="only the last batch of the window could be evaluated again",
        hint="pass accumulate_grad_batches=1 and a larger batch",
    )


def _never_called(module: object) -> ModuleError:
    return ModuleError(
        "module.closure",
        f"{type(module).__name__}.optimizer_step did not call its optimizer_closure",
        values={"class": type(module).__qualname__},
        because="the closure runs training_step and computes the gradients",
        hint="write optimizer.step(closure=optimizer_closure)",
    )
