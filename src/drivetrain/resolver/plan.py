"""Plan: every decision, frozen, each with where it came from and why."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from drivetrain.base.errors import Conflict, Notice, PlanError
from drivetrain.base.loading import Later
from drivetrain.base.origin import Origin, Sourced
from drivetrain.base.text import show
from drivetrain.flags.calls import parse_calls
from drivetrain.flags.problem import Problem
from drivetrain.resolver.facts import AXES
from drivetrain.resolver.spec import StrategySpec

if TYPE_CHECKING:
    from drivetrain.resolver import explain as explaining
else:
    explaining = Later("drivetrain.resolver.explain")


@dataclass(frozen=True)
class Plan:
    """What a run will use. Two plans are equal when they decide the same, whoever decided it.

    Holds no torch objects; ``to_dict`` gives JSON's types and ``from_dict`` reads them back.
    """

    accelerator: str
    """Kind of hardware: ``cpu``, ``cuda``, ..."""
    device_ids: tuple[int, ...]
    """The devices of each node; on CPU the numbers of the processes."""
    num_nodes: int
    strategy: StrategySpec
    """The parallel algorithm: ``.name``, ``.options``; ``str()`` parses back."""
    layout: Mapping[str, int]
    """Size of each mesh axis, from the outermost: pp, dp_replicate, dp_shard, cp, tp, ep; 1 is off."""
    launcher: str
    """Who starts the other ranks: ``none``, ``subprocess``, ``external``, ..."""
    environment: str
    """Who manages the cluster: ``none``, ``torchrun``, ``slurm``, ..."""
    process_group_backend: str
    """What carries collectives: ``gloo``, ``nccl``, ...; ``none`` for one rank."""
    precision: str
    checkpoint_io: str
    layer_sync: str
    """``none``, or ``batchnorm``: batch norm sees all ranks."""
    sources: Mapping[str, Sourced[Any]] = field(compare=False, repr=False, default_factory=dict)
    """By flag: the value, its origin and the reason."""
    notices: tuple[Notice, ...] = field(compare=False, repr=False, default=())
    """What should be said in another way, with the new call; `drivetrain.plan` warns of it."""

    def __post_init__(self) -> None:
        """Freeze the mappings."""
        for name in ("layout", "sources"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))

    @property
    def num_devices(self) -> int:
        """Devices (on CPU: processes) of each node."""
        return len(self.device_ids)

    @property
    def world_size(self) -> int:
        """Ranks in all: num_devices x num_nodes."""
        return self.num_devices * self.num_nodes

    def explain(self) -> str:
        """Return a table of every decision: value, who decided, why."""
        return explaining.explain(self.decisions(), self.sources, self.notices)

    def decisions(self) -> dict[str, object]:
        """Return every decided value by name, without sources."""
        return {
            spec.name: getattr(self, spec.name)
            for spec in fields(self)
            if spec.name not in ("sources", "notices")
        } | {"num_devices": self.num_devices, "world_size": self.world_size}

    def diff(self, other: Plan) -> dict[str, tuple[object, object]]:
        """Return the decisions that differ: name -> (here, there); empty for equal plans."""
        mine, theirs = self.decisions(), other.decisions()
        return {name: (mine[name], theirs[name]) for name in mine if mine[name] != theirs[name]}

    def to_dict(self) -> dict[str, Any]:
        """Return the plan in JSON's types, sources included."""
        decided = self.decisions()
        plain = {name: _plain(value) for name, value in decided.items()}
        plain["sources"] = {
            name: {
                "value": _plain(source.value),
                "origin": source.origin.name.lower(),
                "reason": source.reason,
            }
            for name, source in self.sources.items()
        }
        plain["notices"] = [{"code": notice.code, "message": notice.message} for notice in self.notices]
        return plain

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Plan:
        """Read what `to_dict` wrote.

        Raises:
            PlanError [plan.bad-dict]: a key is missing, or a value is not what `to_dict` writes.
        """
        try:
            found = cls(
                accelerator=_text(data, "accelerator"),
                device_ids=tuple(int(index) for index in data["device_ids"]),
                num_nodes=int(data["num_nodes"]),
                strategy=StrategySpec.of(tuple(parse_calls(_text(data, "strategy")))),
                layout={axis: int(data["layout"][axis]) for axis in AXES},
                launcher=_text(data, "launcher"),
                environment=_text(data, "environment"),
                process_group_backend=_text(data, "process_group_backend"),
                precision=_text(data, "precision"),
                checkpoint_io=_text(data, "checkpoint_io"),
                layer_sync=_text(data, "layer_sync"),
                sources={name: _source(name, source) for name, source in data.get("sources", {}).items()},
                notices=tuple(Notice(note["code"], note["message"]) for note in data.get("notices", ())),
            )
            found._check_written(data)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError, IndexError, Problem) as error:
            source = Sourced[object](data, Origin.ARGUMENT, "Plan.from_dict(...)")
            message = f"not a plan: {type(error).__name__} at {error}"
            because = "a plan is read from what Plan.to_dict() returns"
            raise PlanError((Conflict("plan.bad-dict", message, {"plan": source}, because),)) from error
        return found

    def _check_written(self, data: Mapping[str, Any]) -> None:
        """Refuse data that `to_dict` would not write for the plan that was read from it."""
        written = self.to_dict()
        if unknown := [name for name in data if name not in written]:
            message = f"unknown key {unknown[0]!r}"
            raise ValueError(message)
        for name in (*self.decisions(), "sources", "notices"):
            if name in data and json.dumps(data[name], sort_keys=True) != json.dumps(
                written[name], sort_keys=True
            ):
                message = f"{name}={show(data[name])}"
                raise ValueError(message)
        if not self.device_ids or min(self.device_ids) < 0 or self.num_nodes < 1:
            message = f"device_ids={self.device_ids}, num_nodes={self.num_nodes}"
            raise ValueError(message)
        if math.prod(self.layout.values()) != self.world_size:
            message = f"layout={dict(self.layout)} of {self.world_size} ranks"
            raise ValueError(message)

    def __hash__(self) -> int:
        """Hash by the decisions."""
        return hash(
            (self.accelerator, self.device_ids, self.num_nodes, self.strategy, self.launcher, self.precision)
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as plain data: mapping proxies do not pickle."""
        return Plan.from_dict, (self.to_dict(),)


def _plain(value: object) -> Any:  # noqa: ANN401 - JSON's types
    if isinstance(value, StrategySpec):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(kept) for key, kept in value.items()}
    if isinstance(value, (tuple, list)):
        return [_plain(kept) for kept in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return show(value)


def _text(data: Mapping[str, Any], name: str) -> str:
    value = data[name]
    if not isinstance(value, str):
        message = f"{name}={show(value)}"
        raise TypeError(message)
    return value


def _source(name: str, data: Mapping[str, Any]) -> Sourced[Any]:
    value = data["value"]
    if name == "strategy":
        value = StrategySpec.of(tuple(parse_calls(value)))
    elif isinstance(value, list):
        value = tuple(value)
    return Sourced(value, Origin[data["origin"].upper()], _text(data, "reason"))
