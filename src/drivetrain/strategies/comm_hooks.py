"""How gradients travel where torch's wrapper averages them: in a shorter format, or as factors."""

from __future__ import annotations

import functools
import importlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, final

import torch
import torch.distributed as dist

from drivetrain.base.errors import ModuleError
from drivetrain.data.seeds import mix
from drivetrain.precision.precision import Precision


class CommHook(ABC):
    """Averages a bucket of gradients over ranks. One object a run and rank, which outlives the wrapper."""

    @abstractmethod
    def __call__(self, group: Any, bucket: Any) -> Any:
        """Return a future of the bucket's gradients, averaged over ranks; a torch.distributed.GradBucket.

        Collectives:
            some of the bucket's size or less; every rank calls for the same buckets, in the same order.
        """

    @property
    def dtype(self) -> torch.dtype | None:
        """The format in which it sends; None for the gradients' own."""
        return None

    def state(self) -> dict[str, Any]:
        """Return what this rank has to remember, for the checkpoint."""
        return {}

    def load_state(self, of_ranks: Sequence[Mapping[str, Any]], rank: int, world_size: int) -> None:  # noqa: B027 - for those that remember
        """Take up what each rank's `state` returned."""


@final
class Shorter(CommHook):
    """Sends gradients in a shorter format: half of single precision, and each sum rounded to it."""

    def __init__(self, dtype: torch.dtype) -> None:
        self._dtype = dtype

    @property
    def dtype(self) -> torch.dtype:
        """The shorter format."""
        return self._dtype

    def __call__(self, group: Any, bucket: Any) -> Any:
        """Divide, shorten, sum, and bring back."""
        buffer = bucket.buffer()
        # Divided first, so that the sum of many ranks does not overflow a short format.
        sent = (buffer / dist.get_world_size(group)).to(self._dtype)

        def back(future: Any) -> torch.Tensor:
            result: torch.Tensor = buffer.copy_(_value(future))
            return result

        return _all_reduced(sent, group).then(back)


@final
class PowerSGD(CommHook):
    """Sends each matrix of gradients as the product of two thin ones, and what that loses with the next step.

    Vectors, and matrices that are not larger than their factors, travel as they are. See Vogels et al.,
    "PowerSGD: Practical Low-Rank Gradient Compression for Distributed Optimization" (2019). Unlike torch's
    own, what it remembers belongs to parameters and not to buckets, which a resumed run has in another order.
    """

    def __init__(self, module: torch.nn.Module, precision: Precision, rank: int, start: int) -> None:
        self._names = {id(one): name for name, one in module.named_parameters()}
        self._precision, self._rank, self._start = precision, rank, start
        self._steps = 0
        self._errors: dict[str, torch.Tensor] = {}
        """What earlier steps left out of a parameter's gradient, of its true size; this rank's own."""
        self._factors: dict[str, torch.Tensor] = {}
        """The right factor of the step before, from which the next one begins; the same on every rank."""

    def __call__(self, group: Any, bucket: Any) -> Any:
        """Average the bucket's vectors, and the factors of its matrices."""
        steps = self._steps
        self._steps += bucket.is_last()
        if steps < self._start:
            return _mean(bucket.buffer(), group)
        pairs = list(zip(bucket.parameters(), bucket.gradients(), strict=True))
        matrices = [(self._names[id(one)], grad) for one, grad in pairs if self._is_worth(one)]
        vectors = [grad for one, grad in pairs if not self._is_worth(one)]
        if vectors:
            flat = torch.cat([one.reshape(-1) for one in vectors])
            _mean(flat, group).wait()
            for one, part in zip(vectors, torch.split(flat, [each.numel() for each in vectors]), strict=True):
                one.copy_(part.view_as(one))
        if not matrices:
            return _done(bucket.buffer())
        return self._start_factors(matrices, group, bucket.buffer())

    def _is_worth(self, parameter: torch.Tensor) -> bool:
        if parameter.dim() < 2:  # noqa: PLR2004 - a matrix, or what can be seen as one
            return False
        rows = parameter.shape[0]
        columns = parameter.numel() // max(rows, 1)
        return rows * columns > (rows + columns) * self._rank

    def _start_factors(
        self, matrices: list[tuple[str, torch.Tensor]], group: Any, buffer: torch.Tensor
    ) -> Any:
        scale = self._precision.scale if self._precision.scales_loss else 1.0
        wholes = []
        for name, grad in matrices:
            whole = grad.reshape(grad.shape[0], -1).to(_wide(grad))
            if name in self._errors:
                whole = whole + self._errors[name].to(whole.device) * scale
            if name not in self._factors:
                self._factors[name] = _first_factor(name, whole, self._rank)
            self._factors[name] = self._factors[name].to(whole.device)  # a checkpoint brings them on the CPU
            wholes.append(whole)
        lefts = [whole @ self._factors[name] for (name, _), whole in zip(matrices, wholes, strict=True)]

        def finish(future: Any) -> torch.Tensor:
            orthogonal = [torch.linalg.qr(one).Q for one in _split(_value(future), lefts)]
            rights = [whole.T @ left for whole, left in zip(wholes, orthogonal, strict=True)]
            joined = _mean(torch.cat([one.reshape(-1) for one in rights]), group).wait()
            for (name, grad), whole, left, right in zip(
                matrices, wholes, orthogonal, _split(_value(joined), rights), strict=True
            ):
                self._apply(name, grad, whole, left @ right.T, right, scale)
            return buffer

        return _mean(torch.cat([one.reshape(-1) for one in lefts]), group).then(finish)

    def _apply(
        self,
        name: str,
        grad: torch.Tensor,
        whole: torch.Tensor,
        found: torch.Tensor,
        right: torch.Tensor,
        scale: float,
    ) -> None:
        """Give the gradient its average, and remember what it lacks; a step that overflowed is forgotten."""
        is_finite = torch.isfinite(found).all()
        error = self._errors[name].to(whole.device) if name in self._errors else torch.zeros_like(whole)
        self._errors[name] = torch.where(is_finite, (whole - found) / scale, error)
        self._factors[name] = torch.where(is_finite, right, self._factors[name])
        grad.copy_(found.view_as(grad))  # last: what is whole may lie in the same memory

    def state(self) -> dict[str, Any]:
        """Return the count of steps, and by parameter what is left out and the factor."""
        return {
            "steps": self._steps,
            "errors": {name: one.cpu().clone() for name, one in self._errors.items()},
            "factors": {name: one.cpu().clone() for name, one in self._factors.items()},
        }

    def load_state(self, of_ranks: Sequence[Mapping[str, Any]], rank: int, world_size: int) -> None:
        """Go on from this rank's; other ranks than those that saved take the mean of what was left out."""
        self._steps = int(of_ranks[0]["steps"])
        self._factors = {name: one.clone() for name, one in of_ranks[0]["factors"].items()}
        if len(of_ranks) == world_size:
            self._errors = {name: one.clone() for name, one in of_ranks[rank]["errors"].items()}
        else:
            names = of_ranks[0]["errors"]
            self._errors = {
                name: torch.stack([one["errors"][name] for one in of_ranks]).mean(0) for name in names
            }


@final
class OwnHook(CommHook):
    """A function of the user's, with the arguments of torch's: ``hook(process_group, bucket)``."""

    def __init__(self, hook: Any) -> None:
        self._hook = hook

    def __call__(self, group: Any, bucket: Any) -> Any:
        """Call it."""
        return self._hook(group, bucket)


def make_hook(
    said: str, options: Mapping[str, Any], module: torch.nn.Module, precision: Precision
) -> CommHook:
    """Return the hook that an option says: ``fp16``, ``bf16``, ``powersgd`` or ``"package.module:function"``.

    Raises:
        ModuleError [strategy.comm-hook]: it is none of these, or cannot be imported; or options of PowerSGD
            stand beside another.
    """
    if said != "powersgd" and ("powersgd_rank" in options or "powersgd_start" in options):
        raise _no_hook(said, "powersgd_rank and powersgd_start are of comm_hook='powersgd'")
    if said in {"fp16", "bf16"}:
        return Shorter(torch.float16 if said == "fp16" else torch.bfloat16)
    if said == "powersgd":
        rank, start = int(options.get("powersgd_rank", 1)), int(options.get("powersgd_start", 1000))
        return PowerSGD(module, precision, rank, start)
    place, _, name = said.partition(":")
    try:
        found = functools.reduce(getattr, name.split("."), importlib.import_module(place))
    except (ImportError, AttributeError, ValueError) as error:
        raise _no_hook(said, str(error)) from error
    if not callable(found):
        raise _no_hook(said, f"it is a {type(found).__name__}")
    return OwnHook(found)


def _no_hook(said: str, why: str) -> ModuleError:
    return ModuleError(
        "strategy.comm-hook",
        f"comm_hook={said!r}: {why}",
        values={"comm_hook": said},
        because="a hook is fp16, bf16, powersgd, or 'package.module:function' of a function that takes a "
        "process group and a torch.distributed.GradBucket",
        hint="pass one of these; the module has to be importable on every rank",
    )


def no_backward(said: str, name: str) -> ModuleError:
    """Return the error of a hook where gradients are not averaged within one backward."""
    return ModuleError(
        "strategy.comm-hook",
        f"comm_hook {said!r} with a step that computes gradients several times",
        values={"comm_hook": said, "strategy": name},
        because="a hook acts within the one backward of a step; here gradients are averaged after each",
        hint="leave comm_hook out, or optimize automatically with one optimizer",
    )


def _all_reduced(tensor: torch.Tensor, group: Any) -> Any:
    return dist.all_reduce(tensor, group=group, async_op=True).get_future()


def _mean(tensor: torch.Tensor, group: Any) -> Any:
    """Begin to average in place."""
    return _all_reduced(tensor.div_(dist.get_world_size(group)), group).then(_value)


def _value(future: Any) -> torch.Tensor:
    value = future.value() if hasattr(future, "value") else future
    result: torch.Tensor = value[0] if isinstance(value, (list, tuple)) else value
    return result


def _done(tensor: torch.Tensor) -> Any:
    devices: Any = [] if tensor.device.type == "cpu" else [tensor.device]
    future: Any = torch.futures.Future(devices=devices)
    future.set_result(tensor)
    return future


def _split(flat: torch.Tensor, like: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    parts = torch.split(flat, [one.numel() for one in like])
    return [part.view_as(one) for part, one in zip(parts, like, strict=True)]


def _wide(grad: torch.Tensor) -> torch.dtype:
    return grad.dtype if grad.dtype is torch.float64 else torch.float32


def _first_factor(name: str, whole: torch.Tensor, rank: int) -> torch.Tensor:
    """Return random columns, the same on every rank, without a trace in the random state."""
    generator = torch.Generator().manual_seed(mix(*name.encode()))
    columns = torch.randn(whole.shape[1], rank, generator=generator, dtype=torch.float64)
    return columns.to(whole)
