"""One logged value: its newest, and what is kept of the epoch."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, final

import torch

from drivetrain.base.errors import ModuleError
from drivetrain.modules.run import LogOptions

_CHUNK = 256
"""Values that wait before they are summed: one small kernel for many steps. The sums of a resumed
run fall on the same boundaries, so that they round alike."""

Fx: TypeAlias = "str | Callable[[torch.Tensor], torch.Tensor]"
"""An operation: ``mean``, ``sum``, ``min``, ``max``, or a function of all values as one tensor [n]."""

_KNOWN: dict[Any, str] = {
    torch.mean: "mean",
    torch.sum: "sum",
    sum: "sum",
    torch.min: "min",
    min: "min",
    torch.max: "max",
    max: "max",
}
NAMES = ("mean", "sum", "min", "max")


def read_fx(argument: str, wanted: Any) -> Fx:
    """Return an operation by its name, or the function itself.

    Raises:
        ModuleError [module.log-reduction]: it is neither.
    """
    if wanted in NAMES:
        return str(wanted)
    try:
        known = _KNOWN.get(wanted)
    except TypeError:  # not hashable
        known = None
    if known is not None:
        return known
    if callable(wanted):
        return wanted  # type: ignore[no-any-return]  # a function of the user's
    raise ModuleError(
        "module.log-reduction",
        f"self.log(..., {argument}={wanted!r})",
        values={argument: wanted},
        because=f"an operation is one of {', '.join(NAMES)}, or a function of a tensor with all values",
        hint=f"pass {argument}='mean'",
    )


def fx_name(fx: Fx) -> str:
    """Return an operation's name, as ranks compare it and checkpoints keep it."""
    return fx if isinstance(fx, str) else getattr(fx, "__qualname__", type(fx).__name__)


@final
class Slot:
    """One name in one phase. Values stay tensors, combined when a chunk is full or somebody reads."""

    __slots__ = (
        "_total",
        "_values",
        "_weight",
        "_weights",
        "attribute",
        "fx",
        "is_logged",
        "latest",
        "latest_weight",
        "mark",
        "metric",
        "on_epoch",
        "on_step",
        "said",
        "step",
    )

    def __init__(self, said: LogOptions, *, on_step: bool, on_epoch: bool) -> None:
        self.said, self.on_step, self.on_epoch = said, on_step, on_epoch
        self.fx: Fx = said.reduce_fx
        self.metric: Any = None
        """The torchmetrics object that keeps the epoch itself, where one was logged."""
        self.attribute = ""
        """Where the module holds it."""
        self.mark = ""
        """Its name and how it is kept, as ranks compare it."""
        self.latest: Any = None
        self.latest_weight = 0.0
        self.step = -1
        """The optimizer steps before its newest value; -1 where no step of this epoch logged it."""
        self.is_logged = False
        """Whether anything was logged in this epoch, if only by a stand-in."""
        self.reset()

    def reset(self) -> None:
        """Forget the epoch."""
        self.is_logged = False
        self._values: list[Any] = []
        self._weights: list[float] = []
        self._total: Any = None
        self._weight = 0.0
        if self.metric is not None:
            self.metric.reset()

    def add(self, value: Any, weight: float) -> None:
        """Take a value into the epoch; its weight counts in a mean."""
        self._values.append(value)
        self._weights.append(weight)
        if len(self._values) == _CHUNK and isinstance(self.fx, str):
            self._total, self._weight = self.partial()
            self._values, self._weights = [], []

    def partial(self) -> tuple[Any, float]:
        """Return the epoch so far on this rank, in float64, and the sum of its weights.

        For a mean it is the weighted sum; for a function, all values in a row.
        """
        if not self._values:
            return self._total, self._weight
        values = _stacked(self._values)
        if not isinstance(self.fx, str):
            return values, float(len(values))
        weight = self._weight + sum(self._weights)
        if self.fx == "mean":
            found = (values * torch.tensor(self._weights, dtype=torch.float64, device=values.device)).sum()
        else:
            found = getattr(torch, self.fx)(values)
        if self._total is None:
            return found, weight
        if self.fx in ("mean", "sum"):
            return self._total + found, weight
        return getattr(torch, f"{self.fx}imum")(self._total, found), weight

    def value(self) -> torch.Tensor:
        """Return this rank's value of the epoch so far."""
        return finished(self.fx, *self.partial())

    def state_dict(self) -> dict[str, Any]:
        """Return the epoch so far, exactly, as plain data."""
        rank_fx = self.said.rank_fx
        plain = self.said._replace(
            reduce_fx=fx_name(self.fx), rank_fx=None if rank_fx is None else fx_name(rank_fx)
        )
        return {
            "said": list(plain),
            "on_step": self.on_step,
            "on_epoch": self.on_epoch,
            "is_logged": self.is_logged,
            "values": _stacked(self._values).cpu() if self._values else None,
            "weights": list(self._weights),
            "total": None if self._total is None else torch.as_tensor(self._total, dtype=torch.float64).cpu(),
            "weight": self._weight,
            "latest": None if self.latest is None else torch.as_tensor(self.latest).detach().cpu(),
            "latest_weight": self.latest_weight,
            "is_of_epoch": self.step >= 0,
            "attribute": self.attribute,
            "metric": None if self.metric is None else metric_state(self.metric),
        }

    @classmethod
    def from_state(cls, state: dict[str, Any], device: torch.device, metric: Any = None) -> Slot:
        """Make a slot from what `state_dict` returned; a function is known again when it is logged with."""
        slot = cls(LogOptions(*state["said"]), on_step=state["on_step"], on_epoch=state["on_epoch"])
        slot._values = [] if state["values"] is None else list(state["values"].to(device).unbind())
        slot._weights = list(state["weights"])
        slot._total = None if state["total"] is None else state["total"].to(device)
        slot._weight = state["weight"]
        slot.is_logged = state.get("is_logged", True)
        slot.latest = None if state["latest"] is None else state["latest"].to(device)
        slot.latest_weight, slot.step = state["latest_weight"], 0 if state["is_of_epoch"] else -1
        if metric is not None:
            slot.metric, slot.attribute = metric, state["attribute"]
            load_metric(metric, state["metric"], device)
        return slot


def finished(fx: Fx, total: Any, weight: float) -> torch.Tensor:
    """Return the value of an epoch of one rank; nan where it has none."""
    if total is None:
        return torch.tensor(torch.nan, dtype=torch.float64)
    found: torch.Tensor = torch.as_tensor(total, dtype=torch.float64)
    if not isinstance(fx, str):
        return one_value(fx_name(fx), fx(found)).to(found)
    return found.div(max(weight, 1e-300)) if fx == "mean" else found


def one_value(source: str, value: Any) -> torch.Tensor:
    """Return what a function or a torchmetrics object came to, on the CPU.

    Raises:
        ModuleError [module.log-value]: it is not one number.
    """
    found = None
    if isinstance(value, (torch.Tensor, int, float)):
        found = torch.as_tensor(value).detach().cpu()
    if found is not None and found.numel() == 1 and not found.is_complex():
        return found.reshape(())
    shape = "" if found is None else f" of shape {tuple(found.shape)}"
    raise ModuleError(
        "module.log-value",
        f"{source}, which was logged, came to a {type(value).__name__}{shape}",
        values={"source": source, "value": value},
        because="a logged value is one number, also what a reduce_fx or a torchmetrics object comes to",
        hint="reduce it: average='macro', or value.mean(); or log each part under a name of its own",
    )


def read_weight(name: str, batch_size: Any) -> float:
    """Return how many samples a value is said to stand for.

    Raises:
        ModuleError [module.log-value]: not a number of 0 or more.
    """
    if type(batch_size) is int and batch_size >= 0:
        return batch_size
    try:
        found = math.nan if isinstance(batch_size, (str, bool)) else float(batch_size)
    except (TypeError, ValueError):
        found = math.nan
    if 0 <= found < math.inf:
        return found
    raise ModuleError(
        "module.log-value",
        f"self.log({name!r}, ..., batch_size={batch_size!r})",
        values={"name": name, "batch_size": batch_size},
        because="batch_size is what the value counts in a mean: a number of 0 or more",
        hint="pass batch_size=len(x)",
    )


def merged(states: list[dict[str, Any]]) -> dict[str, Any]:
    """Put one name's states of several ranks into one; what they come to together stays the same."""
    first = {**states[0], "is_logged": any(state.get("is_logged", True) for state in states)}
    fx = first["said"][LogOptions._fields.index("reduce_fx")]
    slots = [Slot.from_state(state, torch.device("cpu")) for state in states]
    if fx not in NAMES:
        parts = [state["values"] for state in states if state["values"] is not None]
        first["values"] = torch.cat(parts) if parts else None
        first["weights"] = [weight for state in states for weight in state["weights"]]
        return first
    pairs = [slot.partial() for slot in slots]
    known = [(total, weight) for total, weight in pairs if total is not None]
    if known:
        stack = torch.stack([torch.as_tensor(total) for total, _ in known])
        first["total"] = getattr(torch, "sum" if fx in ("mean", "sum") else fx)(stack)
        first["weight"] = sum(weight for _, weight in known)
    first["values"], first["weights"] = None, []
    return first


def combined(slot: Slot, states: list[dict[str, Any]]) -> torch.Tensor:
    """Return what the states of several ranks come to by a slot's operations."""
    cpu = torch.device("cpu")
    rank_fx = slot.said.rank_fx
    parts = []
    for state in states if rank_fx is not None else [merged(states)] if states else []:
        one = Slot.from_state(state, cpu)
        one.fx = slot.fx
        parts.append(one.value().reshape(1))
    if rank_fx is None:
        return parts[0].reshape(()) if parts else torch.tensor(torch.nan, dtype=torch.float64)
    fx, known = read_fx("rank_fx", rank_fx), torch.cat(parts)
    if callable(fx):
        return torch.as_tensor(fx(known), dtype=torch.float64)
    return torch.as_tensor(getattr(torch, fx)(known), dtype=torch.float64)


def is_metric(value: Any) -> bool:
    """Whether a value is a torchmetrics object, without importing torchmetrics."""
    return isinstance(value, torch.nn.Module) and all(
        callable(getattr(value, name, None)) for name in ("update", "compute", "reset")
    )


COUNTERS = ("_num_vals_seen",)
"""What torchmetrics' own keep beside their states: which value of a running window is the oldest."""


def metric_state(metric: Any) -> dict[str, Any]:
    """Return a copy of a torchmetrics object's state: torchmetrics adds to it in place."""
    state = {
        name: [_copied(one) for one in value] if isinstance(value, list) else _copied(value)
        for name, value in metric.metric_state.items()
    }
    counters = {name: value for name, value in vars(metric).items() if name in COUNTERS}
    return {"state": state, "updates": int(metric.update_count), "beside": beside(metric), **counters}


def beside(metric: Any) -> dict[str, torch.Tensor]:
    """Return a copy of the tensors that are no states: what a reset leaves, as an extreme of all epochs."""
    states = metric.metric_state
    return {
        name: _copied(value)
        for name, value in vars(metric).items()
        if isinstance(value, torch.Tensor) and name not in states and not name.startswith("_")
    }


def _copied(value: torch.Tensor) -> torch.Tensor:
    return value.detach().to("cpu", copy=True)


def load_metric(metric: Any, kept: Mapping[str, Any], device: torch.device) -> None:
    """Give a torchmetrics object a state, which stays the caller's: torchmetrics adds in place."""
    metric.reset()
    for name, value in kept["state"].items():
        moved = (
            [one.clone().to(device) for one in value] if isinstance(value, list) else value.clone().to(device)
        )
        setattr(metric, name, moved)
    for name, value in kept.get("beside", {}).items():  # files from before it was kept have none
        setattr(metric, name, value.clone().to(device))
    metric._update_count = kept["updates"]  # noqa: SLF001 - torchmetrics has no public way to say it
    for name in COUNTERS:
        if name in kept and hasattr(metric, name):
            setattr(metric, name, int(kept[name]))


def _stacked(values: list[Any]) -> torch.Tensor:
    first = values[0]
    if isinstance(first, torch.Tensor) and all(
        isinstance(one, torch.Tensor) and one.dtype is first.dtype for one in values
    ):
        return torch.stack(values).double()
    device = next((one.device for one in values if isinstance(one, torch.Tensor)), torch.device("cpu"))
    return torch.stack([torch.as_tensor(one, dtype=torch.float64, device=device) for one in values])


def checked(name: str, value: Any, *, enable_graph: bool = False) -> Any:
    """Return a value that may be kept: a number, or a scalar tensor that nobody will change.

    Raises:
        ModuleError [module.log-value]: anything else.
    """
    if isinstance(value, torch.Tensor) and value.numel() == 1 and not value.is_complex():
        if enable_graph:
            return value.reshape(())
        kept = value.detach().clone()  # what is logged stays what it was, whatever is done to the tensor
        return kept.reshape(()) if kept.dim() else kept
    shape = f" of shape {tuple(value.shape)}" if isinstance(value, torch.Tensor) else ""
    try:
        if isinstance(value, (int, float)):
            return float(value)
        if not shape and getattr(value, "size", None) == 1:  # numpy's scalars, and arrays of one
            return float(value.item())
    except (TypeError, ValueError, OverflowError):
        pass
    raise ModuleError(
        "module.log-value",
        f"self.log({name!r}, ...) got a {type(value).__name__}{shape}",
        values={"name": name, "value": value},
        because="a logged value is a number, a tensor with one element, or a torchmetrics object",
        hint="reduce it first: value.mean()",
    )
