"""Enumerations and types that annotations and comparisons of others name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol, TypeAlias, TypedDict, runtime_checkable

import torch
from torch.nn.parallel import DistributedDataParallel
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau
from typing_extensions import NotRequired

from drivetrain.loops.optimization import Scheduled as LRSchedulerConfig

__all__ = ["DistributedDataParallel", "LRSchedulerConfig"]

FLOAT16_EPSILON = torch.finfo(torch.float16).eps
FLOAT32_EPSILON = torch.finfo(torch.float32).eps
FLOAT64_EPSILON = torch.finfo(torch.float64).eps

STEP_OUTPUT: TypeAlias = "torch.Tensor | Mapping[str, Any] | None"
TRAIN_DATALOADERS: TypeAlias = Any
EVAL_DATALOADERS: TypeAlias = Any
LRSchedulerTypeTuple = (LRScheduler, ReduceLROnPlateau)
LRSchedulerTypeUnion: TypeAlias = "LRScheduler | ReduceLROnPlateau"
LRSchedulerType: TypeAlias = "type[LRScheduler | ReduceLROnPlateau]"
LRSchedulerPLType: TypeAlias = LRSchedulerTypeUnion
OptimizerLRScheduler: TypeAlias = Any
CollectibleGroup: TypeAlias = Any


class LRSchedulerConfigType(TypedDict):
    """A scheduler's entry in what configure_optimizers returns."""

    scheduler: Any
    name: NotRequired[str | None]
    interval: NotRequired[str]
    frequency: NotRequired[int]
    reduce_on_plateau: NotRequired[bool]
    monitor: NotRequired[str | None]
    strict: NotRequired[bool]


class OptimizerConfig(TypedDict):
    """What configure_optimizers returns: an optimizer."""

    optimizer: torch.optim.Optimizer


class OptimizerLRSchedulerConfig(TypedDict):
    """What configure_optimizers returns: an optimizer, with or without a scheduler."""

    optimizer: torch.optim.Optimizer
    lr_scheduler: NotRequired[Any]
    monitor: NotRequired[str]


@runtime_checkable
class Steppable(Protocol):
    """What has a ``step``."""

    def step(self, closure: Any = None) -> Any:
        """Change the parameters."""


@runtime_checkable
class Optimizable(Steppable, Protocol):
    """What is used as an optimizer."""

    param_groups: list[dict[Any, Any]]

    def state_dict(self) -> dict[str, Any]:
        """Return its state."""

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take up a state."""


class LightningEnum(str, Enum):
    """A text that is one of a few; compares with any spelling of its case."""

    @classmethod
    def from_str(cls, value: str) -> LightningEnum | None:
        """Return the member of a name or value, or None."""
        return next((one for one in cls if value.lower() in (one.name.lower(), one.value.lower())), None)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and self.value.lower() == str(getattr(other, "value", other)).lower()

    def __hash__(self) -> int:
        return hash(self.value.lower())

    def __str__(self) -> str:
        return str(self.value)


class GradClipAlgorithmType(LightningEnum):
    """How gradients are clipped."""

    VALUE = "value"
    NORM = "norm"

    @staticmethod
    def supported_type(val: str) -> bool:
        """Whether there is such an algorithm."""
        return any(one == val for one in GradClipAlgorithmType)

    @staticmethod
    def supported_types() -> list[str]:
        """Return their names."""
        return [one.value for one in GradClipAlgorithmType]


class WriteInterval(LightningEnum):
    """When a `BasePredictionWriter` writes."""

    BATCH = "batch"
    EPOCH = "epoch"
    BATCH_AND_EPOCH = "batch_and_epoch"

    @property
    def on_batch(self) -> bool:
        """Whether after each batch."""
        return self != self.EPOCH

    @property
    def on_epoch(self) -> bool:
        """Whether after the epoch."""
        return self != self.BATCH


class Interval(LightningEnum):
    """When a `Timer` looks at the clock."""

    step = "step"
    epoch = "epoch"


class TrainerStatus(LightningEnum):
    """How a run stands."""

    INITIALIZING = "initializing"
    RUNNING = "running"
    FINISHED = "finished"
    INTERRUPTED = "interrupted"

    @property
    def stopped(self) -> bool:
        """Whether it is over."""
        return self in (self.FINISHED, self.INTERRUPTED)


class TrainerFn(LightningEnum):
    """The verb of a run; equal to the ``stage`` that `setup` gets."""

    FITTING = "fit"
    VALIDATING = "validate"
    TESTING = "test"
    PREDICTING = "predict"


class RunningStage(LightningEnum):
    """What goes on now."""

    TRAINING = "train"
    SANITY_CHECKING = "sanity_check"
    VALIDATING = "validate"
    TESTING = "test"
    PREDICTING = "predict"

    @property
    def evaluating(self) -> bool:
        """Whether it is an evaluation."""
        return self in (self.VALIDATING, self.TESTING, self.SANITY_CHECKING)

    @property
    def dataloader_prefix(self) -> str | None:
        """How the names of its loaders begin."""
        return {"validate": "val", "sanity_check": "val"}.get(self.value, self.value)


@dataclass
class TrainerState:
    """The verb of a run, what goes on in it, and how it stands."""

    status: TrainerStatus = TrainerStatus.INITIALIZING
    fn: TrainerFn | None = None
    stage: RunningStage | None = None

    @property
    def finished(self) -> bool:
        """Whether it ended well."""
        return self.status == TrainerStatus.FINISHED

    @property
    def stopped(self) -> bool:
        """Whether it is over."""
        return self.status.stopped


class AttributeDict(dict[str, Any]):
    """A dict whose entries are attributes too."""

    def __getattr__(self, name: str) -> Any:
        """Return an entry."""
        try:
            return self[name]
        except KeyError:
            message = f"no attribute {name!r}"
            raise AttributeError(message) from None

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an entry."""
        self[name] = value

    def __repr__(self) -> str:
        wide = max((len(str(name)) for name in self), default=0)
        return "\n".join(f'"{name}":{"":{wide - len(str(name)) + 1}}{value}' for name, value in self.items())
