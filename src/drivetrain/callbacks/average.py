"""Average: the running average of a module's weights, and its exchange with them."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from typing import Any, final

import torch
from torch.optim.swa_utils import AveragedModel

from drivetrain.base.errors import DrivetrainWarning, Notice
from drivetrain.modules import Module, Run
from drivetrain.strategies.parts import is_in_parts, local
from drivetrain.strategies.strategy import Strategy

_SHORT = (torch.bfloat16, torch.float16)


@final
class Average:
    """torch's AveragedModel of a module's parameters and buffers, and of nothing else that the module holds.

    With ``use_buffers`` buffers are averaged too; otherwise they are those of the last update. The first
    update copies. ``swap`` exchanges the averages with the module's weights, in place; while they are
    exchanged ``state_dict`` returns the averages still, from where they are.

    Of a parameter that is in parts over ranks each rank averages its own, until `gather`.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        device: torch.device | None,
        strategy: Strategy | None = None,
        **options: Any,
    ) -> None:
        _warn_of_short_format(module)
        self._strategy = strategy
        # Tensors may be replaced, so it is noted where they stand.
        self._parameters = _places(module, "_parameters")
        self._buffers = _places(module, "_buffers")
        self._live = _Tensors()
        self._look()
        self._averaged = AveragedModel(self._live, device, **options)
        self._averaged.requires_grad_(False)
        self.is_swapped = False
        """Whether the module has the averages, and its own weights are here."""

    @property
    def count(self) -> int:
        """How many weights are in the average."""
        return int(self._averaged.n_averaged)

    def update(self) -> None:
        """Take the module's weights of now into the average."""
        self._look()
        self._averaged.update_parameters(self._live)

    def swap(self) -> None:
        """Exchange the averages with the module's weights."""
        self._look()
        with torch.no_grad():
            for mine, theirs in zip(_of(self._averaged.module), _of(self._live), strict=True):
                kept = theirs.clone()
                theirs.copy_(mine)
                mine.copy_(kept)
        self.is_swapped = not self.is_swapped

    def to(self, device: torch.device | str) -> None:
        """Move the averages."""
        self._averaged.to(device)

    def state_dict(self) -> dict[str, Any]:
        """Return the averages by the names of the module, and how many weights are in them."""
        self._look()
        tensors = self._whole(self._live if self.is_swapped else self._averaged.module)
        return {"tensors": dict(zip(self._names, tensors, strict=True)), "count": self.count}

    def gather(self) -> None:
        """Bring what this holds together on rank 0, at the end of a run: nobody can be asked later.

        Collectives:
            those of `Strategy.whole`; every rank must call.
        """
        if not any(map(is_in_parts, self._tensors())):
            return
        held = self._averaged.module
        for name, whole in zip([*held._parameters], self._whole(held), strict=False):  # noqa: SLF001 - torch's
            # The others have nothing left to save.
            held.register_parameter(name, torch.nn.Parameter(torch.zeros(0) if whole is None else whole))
        self._averaged.requires_grad_(False)

    def _whole(self, held: torch.nn.Module) -> list[torch.Tensor | None]:
        tensors, strategy = [one.detach() for one in _of(held)], self._strategy
        likes = self._tensors()
        if strategy is None or not any(map(is_in_parts, likes)):
            return [*tensors]
        return strategy.whole([strategy.spread(one, like) for one, like in zip(tensors, likes, strict=True)])

    def _tensors(self) -> list[torch.Tensor]:
        """Return the module's own, as they are now."""
        return [getattr(part, name) for _, part, name in (*self._parameters, *self._buffers)]

    @property
    def _names(self) -> list[str]:
        return [name for name, _, _ in (*self._parameters, *self._buffers)]

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take up what `state_dict` returned."""
        with torch.no_grad():
            for name, mine, like in zip(
                self._names, _of(self._averaged.module), self._tensors(), strict=True
            ):
                kept = state["tensors"][name]
                mine.copy_(kept if self._strategy is None else local(self._strategy.part(kept, like)))
        self.set_count(state["count"])

    def set_count(self, count: int) -> None:
        """Say how many weights are in the average."""
        self._averaged.n_averaged.fill_(count)

    def _look(self) -> None:
        tensors = [local(one.detach()) if is_in_parts(one) else one for one in self._tensors()]
        split = len(self._parameters)
        self._live.see(tensors[:split], tensors[split:])


def _warn_of_short_format(module: torch.nn.Module) -> None:
    short = sorted({str(one.dtype) for one in module.parameters() if one.dtype in _SHORT})
    if short:
        text = (
            f"weights in {', '.join(short)} are averaged in that format, where a small part of a weight is "
            "rounded away: a slow average hardly moves. Train with precision='bf16-mixed' or '16-mixed'"
        )
        warnings.warn(str(Notice("callback.short-average", text)), DrivetrainWarning, stacklevel=2)


class _Tensors(torch.nn.Module):
    """The parameters and buffers of another module, in order."""

    def see(self, parameters: list[torch.Tensor], buffers: list[torch.Tensor]) -> None:
        """Take those that are there now."""
        for number, one in enumerate(parameters):
            is_one = isinstance(one, torch.nn.Parameter)
            self.register_parameter(f"parameter_{number}", one if is_one else torch.nn.Parameter(one))  # type: ignore[arg-type]  # as was asked
        for number, one in enumerate(buffers):
            self._buffers[f"buffer_{number}"] = one


def _places(module: torch.nn.Module, kind: str) -> list[tuple[str, torch.nn.Module, str]]:
    """Return name, owner and the owner's name of each parameter or buffer; what is shared comes once."""
    found = {
        id(one): (f"{path}.{name}" if path else name, part, name)
        for path, part in reversed([*module.named_modules()])
        for name, one in reversed([*getattr(part, kind).items()])
        if one is not None
    }
    return [*found.values()][::-1]


def _of(module: torch.nn.Module) -> Iterator[torch.Tensor]:
    yield from module.parameters()
    yield from module.buffers()


def take_current(checkpoint: dict[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, Any]] | None:
    """Make a checkpoint's weights those of training; return the averages and these, where it has both."""
    current = checkpoint.get("current_model_state")
    if current is None:
        return None
    averaged, checkpoint["state_dict"] = checkpoint["state_dict"], current
    return averaged, current


def store_both(trainer: Run, module: Module, checkpoint: dict[str, Any], average: Average) -> None:
    """Make a checkpoint's weights the averages, with those that training goes on with beside them."""
    here = checkpoint["state_dict"]
    average.swap()
    try:
        others = {
            name: value.detach().to("cpu", copy=True) if isinstance(value, torch.Tensor) else value
            for name, value in trainer.strategy.model_state(module).items()
        }
    finally:
        average.swap()
    averaged, current = (here, others) if average.is_swapped else (others, here)
    checkpoint["state_dict"] = averaged
    if "optimizer_states" in checkpoint:  # weights only has no use for what training goes on with
        checkpoint["current_model_state"] = current
        checkpoint["averaging_state"] = {"n_averaged": torch.tensor(average.count)}
