"""Attached: a module's place in the run that it is in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from drivetrain.base.errors import CollectiveError, ModuleError
from drivetrain.base.tree import leaves, map_leaves
from drivetrain.collectives.alike import check_alike
from drivetrain.modules.run import Recorder, Run, Stepper

_LIVE = ("_run", "_recorder", "_stepper", "_fabric")


class Attached(torch.nn.Module):
    """What a module may ask while a trainer runs it; plain answers outside of a run where there are any."""

    _run: Run | None = None
    _recorder: Recorder | None = None
    _stepper: Stepper | None = None

    def print(self, *values: object, **options: Any) -> None:
        """Print on rank 0 only, with the options of Python's own; in a run above the progress bar."""
        if self._run is not None:
            self._run.print(*values, **options)
        else:
            print(*values, **options)  # noqa: T201 - what it is for

    @property
    def trainer(self) -> Run:
        """The trainer of the run that this module is in.

        Raises:
            ModuleError [module.no-trainer]: it is in none.
        """
        if self._run is None:
            raise outside(self, "self.trainer", "module.no-trainer")
        return self._run

    @property
    def current_epoch(self) -> int:
        """Number of the epoch, from 0; 0 outside of a run."""
        return 0 if self._run is None else self._run.current_epoch

    @property
    def global_step(self) -> int:
        """Optimizer steps taken; 0 outside of a run."""
        return 0 if self._run is None else self._run.global_step

    @property
    def global_rank(self) -> int:
        """This process's rank; 0 outside of a run."""
        return 0 if self._run is None else self._run.global_rank

    @property
    def local_rank(self) -> int:
        """This process's rank on its node; 0 outside of a run."""
        return 0 if self._run is None else self._run.local_rank

    @property
    def device(self) -> torch.device:
        """Where the first parameter or buffer is; the CPU for a module without any."""
        found: torch.Tensor | None = next(self.parameters(), None)
        found = next(self.buffers(), None) if found is None else found
        return torch.device("cpu") if found is None else found.device

    @property
    def dtype(self) -> torch.dtype:
        """The first floating parameter's type; torch's default for a module without any."""
        return next(
            (one.dtype for one in self.parameters() if one.is_floating_point()), torch.get_default_dtype()
        )

    @property
    def loggers(self) -> Sequence[Any]:
        """The run's loggers; empty outside of a run."""
        return [] if self._run is None else self._run.loggers

    @property
    def logger(self) -> Any:
        """The run's first logger, or None."""
        return next(iter(self.loggers), None)

    def all_gather(self, data: Any, group: Any = None, sync_grads: bool = False) -> Any:
        """Return every rank's tensors, stacked in a new first dimension; nested containers keep their form.

        Shapes:
            data: tensors of any one shape, the same on each rank.
            returns: [world_size, *shape]; one rank gives [1, *shape].
        Collectives:
            one all_gather a tensor, and an all_reduce of 16 bytes; every rank must call.
        Raises:
            ModuleError [module.no-trainer]: outside of a run.
            CollectiveError [collectives.no-groups]: ``group`` or ``sync_grads`` is said.
            CollectiveError [collectives.shapes]: the ranks' tensors differ in number, shape or type.
        """
        if group is not None or sync_grads:
            raise CollectiveError(
                "collectives.no-groups",
                "all_gather over a part of the ranks, or with gradients",
                values={"group": group, "sync_grads": sync_grads},
                because="this release gathers over all ranks and detaches",
                hint="use torch.distributed.nn.functional.all_gather for gradients",
            )
        collectives = self.trainer.collectives
        check_alike(
            [leaf for _, leaf in leaves(data) if isinstance(leaf, torch.Tensor)],
            collectives,
            self.trainer.strategy.device,
        )
        return map_leaves(
            data,
            lambda leaf: (
                torch.stack(list(collectives.all_gather(leaf.detach())))
                if isinstance(leaf, torch.Tensor)
                else leaf
            ),
        )

    def __getstate__(self) -> dict[str, Any]:
        """Pickle without the run that it is in."""
        state: dict[str, Any] = super().__getstate__()  # type: ignore[no-untyped-call]  # torch's own
        return {name: value for name, value in state.items() if name not in _LIVE}


def outside(module: torch.nn.Module, what: str, code: str) -> ModuleError:
    """Return the error for what only a module in a run has."""
    return ModuleError(
        code,
        f"{what} of {type(module).__name__} outside of a run",
        values={"class": type(module).__qualname__},
        because="only a module that a trainer runs has one, and a place to log to",
        hint="call it from a step or hook, in trainer.fit, validate, test or predict",
    )
