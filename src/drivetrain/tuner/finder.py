"""Finder: a callback that searches a setting before a run, and what takes no part in a search."""

from __future__ import annotations

import gc
import signal
import tempfile
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import torch

from drivetrain.base.where import HERE
from drivetrain.callbacks.callback import Callback
from drivetrain.callbacks.early_stopping import EarlyStopping
from drivetrain.callbacks.learning_rate_monitor import LearningRateMonitor
from drivetrain.callbacks.spike_detection import SpikeDetection
from drivetrain.callbacks.stochastic_weight_averaging import StochasticWeightAveraging
from drivetrain.data.seeds import seeded
from drivetrain.strategies.strategy import Strategy


class Finder(Callback):
    """Searches when a run begins: once the data is set up, before loaders, optimizers and the device's copy.

    So what is found holds for everything that is made from it, and the search has the device for itself. A
    subclass that overrides the hook of the stage's start searches when it calls for it, and at no other time.
    A fit that goes on from a checkpoint takes up what was found before.
    """

    decides = True
    _starts: ClassVar[Mapping[str, Callable[..., None]]] = {}
    """By stage, the hook at whose moment a search belongs."""
    _is_due = False

    @abstractmethod
    def _search(self, trainer: Any, module: Any) -> None:
        """Search, and use what is found in this run."""

    @abstractmethod
    def _take_up(self, trainer: Any, module: Any) -> None:
        """Use what was found before."""

    def setup(self, trainer: Any, module: Any, stage: str) -> None:
        """Search, unless a subclass does it later or a checkpoint holds what was found."""
        self._is_due = False
        start = self._starts.get(stage)
        is_resumed = stage == "fit" and trainer.ckpt_path is not None
        if start is None or is_resumed or trainer._settings.is_fast:
            return
        if getattr(type(self), start.__name__) is start:
            self._search(trainer, module)
        else:
            self._is_due = True

    def _begin(self, trainer: Any, module: Any, stage: str) -> None:
        """Search late: a subclass has overridden the hook and calls the one that it replaced."""
        if self._is_due and trainer._context.stage == stage:
            self._is_due = False
            self._search(trainer, module)

    def on_load_checkpoint(self, trainer: Any, module: Any, checkpoint: dict[str, Any]) -> None:
        """Take up what was found before optimizers are made."""
        kept = checkpoint.get("callbacks")
        state = kept.get(self.state_key) if isinstance(kept, dict) else None
        if state is not None and trainer._context.stage == "fit":
            self.load_state_dict(state)
            self._take_up(trainer, module)


LEFT_OUT = (Finder, EarlyStopping, LearningRateMonitor, SpikeDetection, StochasticWeightAveraging)
"""Callbacks that take no part in a search: they would search, stop it, or change its learning rate."""


@contextmanager
def aside(strategy: Strategy) -> Iterator[Path]:
    """Run a search in the middle of a run, on every rank: with a folder of its own, and without a trace.

    Random state is put back, the device's too; what the search left in memory is let go.
    """
    before = strategy.rng_state()
    try:
        with (
            _among_new_objects(),
            HERE.apart(),
            seeded(0),
            torch.inference_mode(mode=False),
            torch.enable_grad(),
            tempfile.TemporaryDirectory(prefix="drivetrain-tuner-") as folder,
        ):
            yield Path(folder)
    finally:
        strategy.set_rng_state(before)
        free(strategy)


@contextmanager
def _among_new_objects() -> Iterator[None]:
    """Let collections in a block look only at what it made: a process may hold millions of objects beside."""
    gc.collect()
    is_own = gc.get_freeze_count() == 0  # in a forked rank its parent's objects stay frozen
    if is_own:
        gc.freeze()
    try:
        yield
    finally:
        if is_own:
            gc.unfreeze()


def free(strategy: Strategy) -> None:
    """Let go what nobody refers to: cycles first, then what the device caches."""
    gc.collect()
    strategy.accelerator.teardown(strategy.device)


def run_fit(twin: Any, *arguments: Any) -> None:
    """Run a twin's fit; a signal that it left for is raised again, as it was meant for the whole run."""
    _, number = twin._run_within("fit", *arguments)
    if number:
        signal.raise_signal(number)
