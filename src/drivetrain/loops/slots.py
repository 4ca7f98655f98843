"""One logged value: its newest, and its running weighted sum over the epoch."""

from __future__ import annotations

from typing import Any, final

import torch

from drivetrain.base.errors import ModuleError
from drivetrain.modules.run import LogOptions

_CHUNK = 256
"""Values that wait before they are summed: one small kernel for many steps. The sums of a resumed
run fall on the same boundaries, so that they round alike."""


@final
class Slot:
    """One name in one phase. Values stay tensors; sums are taken when a chunk is full or somebody reads."""

    __slots__ = (
        "_sum",
        "_values",
        "_weight",
        "_weights",
        "latest",
        "latest_weight",
        "on_epoch",
        "on_step",
        "said",
        "step",
    )

    def __init__(self, said: LogOptions, *, on_step: bool, on_epoch: bool) -> None:
        self.said, self.on_step, self.on_epoch = said, on_step, on_epoch
        self.latest: Any = None
        self.latest_weight = 0.0
        self.step = -1
        self.reset()

    def reset(self) -> None:
        """Forget the epoch."""
        self._values: list[Any] = []
        self._weights: list[float] = []
        self._sum: Any = 0.0
        self._weight = 0.0

    def add(self, value: Any, weight: float) -> None:
        """Take a value into the epoch's mean."""
        self._values.append(value)
        self._weights.append(weight)
        if len(self._values) == _CHUNK:
            self._sum, self._weight = self.sums()
            self._values, self._weights = [], []

    def sums(self) -> tuple[Any, float]:
        """Return the weighted sum (float64) and the weights' sum so far."""
        if not self._values:
            return self._sum, self._weight
        values = _stacked(self._values)
        weights = torch.tensor(self._weights, dtype=torch.float64, device=values.device)
        return self._sum + (values * weights).sum(), self._weight + sum(self._weights)

    def mean(self) -> torch.Tensor:
        """Return this rank's mean so far."""
        total, weight = self.sums()
        return torch.as_tensor(total, dtype=torch.float64) / max(weight, 1e-300)

    def state_dict(self) -> dict[str, Any]:
        """Return the epoch so far, exactly, as plain data."""
        return {
            "said": list(self.said),
            "on_step": self.on_step,
            "on_epoch": self.on_epoch,
            "values": _stacked(self._values).cpu() if self._values else None,
            "weights": list(self._weights),
            "sum": torch.as_tensor(self._sum, dtype=torch.float64).cpu(),
            "weight": self._weight,
            "latest": None if self.latest is None else torch.as_tensor(self.latest).cpu(),
            "latest_weight": self.latest_weight,
        }

    @classmethod
    def from_state(cls, state: dict[str, Any], device: torch.device) -> Slot:
        """Make a slot from what `state_dict` returned."""
        slot = cls(LogOptions(*state["said"]), on_step=state["on_step"], on_epoch=state["on_epoch"])
        slot._values = [] if state["values"] is None else list(state["values"].to(device).unbind())
        slot._weights = list(state["weights"])
        slot._sum, slot._weight = state["sum"].to(device), state["weight"]
        slot.latest = None if state["latest"] is None else state["latest"].to(device)
        slot.latest_weight = state["latest_weight"]
        return slot


def _stacked(values: list[Any]) -> torch.Tensor:
    first = values[0]
    if isinstance(first, torch.Tensor) and all(
        isinstance(one, torch.Tensor) and one.dtype is first.dtype for one in values
    ):
        return torch.stack(values).double()
    device = next((one.device for one in values if isinstance(one, torch.Tensor)), torch.device("cpu"))
    return torch.stack([torch.as_tensor(one, dtype=torch.float64, device=device) for one in values])


def checked(name: str, value: Any) -> Any:
    """Return a value that may be kept: a number, or a detached scalar tensor that nobody will change.

    Raises:
        ModuleError [module.log-value]: anything else.
    """
    if isinstance(value, torch.Tensor) and value.numel() == 1:
        # The result of a computation is detached; a leaf, which may be a buffer, is copied.
        kept = value.detach() if value.grad_fn is not None else value.detach().clone()
        return kept.reshape(()) if kept.dim() else kept
    if isinstance(value, (int, float)):
        return float(value)
    shape = f" of shape {tuple(value.shape)}" if isinstance(value, torch.Tensor) else ""
    try:
        if not shape and getattr(value, "ndim", None) == 0:  # numpy's scalars
            return float(value)
    except (TypeError, ValueError):
        pass
    raise ModuleError(
        "module.log-value",
        f"self.log({name!r}, ...) got a {type(value).__name__}{shape}",
        values={"name": name, "value": value},
        because="a logged value is a number or a tensor with one element",
        hint="reduce it first: value.mean()",
    )
