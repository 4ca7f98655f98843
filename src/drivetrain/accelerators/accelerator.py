"""Accelerator: what a kind of hardware can do for a run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, final

import torch

from drivetrain.base.tree import map_leaves
from drivetrain.resolver.facts import AcceleratorFacts


class Accelerator(ABC):
    """One kind of hardware: its torch device, set-up, moving data, statistics, random state.

    It holds no device: the device of a rank is passed in, so one object serves every rank.
    """

    name: ClassVar[str]
    """The flag's value, and torch's device type."""

    @property
    @abstractmethod
    def facts(self) -> AcceleratorFacts:
        """What this accelerator declares about itself; the resolver reads it from the object."""

    @abstractmethod
    def device(self, device_id: int) -> torch.device:
        """Return the torch device with this index on this node."""

    @abstractmethod
    def setup(self, device: torch.device) -> None:
        """Make the device this process's current one.

        Raises:
            BuildError [build.no-device]: the machine lacks it.
        """

    @abstractmethod
    def teardown(self, device: torch.device) -> None:
        """Release what the device caches; the process may go on and use it again."""

    @abstractmethod
    def memory_bytes(self, device: torch.device) -> dict[str, int]:
        """Return memory statistics of the device.

        Units:
            returns: bytes, by statistic; ``peak`` is the most since the process started.
        """

    @abstractmethod
    def stats(self, device: torch.device) -> dict[str, float]:
        """Return what the device tells about itself now, by name; waits for nothing.

        Units:
            returns: bytes and counts; names that end in ``percent`` go from 0 to 100.
        """

    @abstractmethod
    def peak_flops(self, device: torch.device, number: str) -> float | None:
        """Return what the maker promises for matrix products, or None where it is not known.

        ``number`` is ``float64``, ``float32``, ``tf32``, ``bfloat16`` or ``float16``.

        Units:
            returns: operations a second; a multiplication and an addition are two.
        """

    @abstractmethod
    def rng_state(self, device: torch.device) -> torch.Tensor | None:
        """Return the device's own random state, or None where it has none beside the CPU's."""

    @abstractmethod
    def set_rng_state(self, device: torch.device, state: torch.Tensor) -> None:
        """Set what `rng_state` returned."""

    @final
    def move(self, batch: Any, device: torch.device) -> Any:  # noqa: ANN401 - any nesting
        """Move every tensor, and every object with ``.to``, of a nested batch to the device.

        A batch that is on the device already is returned itself. From pinned memory the copy is
        asynchronous, so the source must not be changed before the device has caught up.
        """

        def one(leaf: Any) -> Any:  # noqa: ANN401 - a leaf may be anything
            if isinstance(leaf, torch.Tensor):
                if leaf.device == device:
                    return leaf
                return leaf.to(device, non_blocking=leaf.device.type == "cpu" and leaf.is_pinned())
            return leaf.to(device) if callable(getattr(leaf, "to", None)) else leaf

        return map_leaves(batch, one)
