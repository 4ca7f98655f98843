"""Each library trains a task for one epoch, as its documentation teaches; each returns the clock.

``mode`` is ``bare`` (no logger, bar, checkpoint, summary), ``logged`` (one ``self.log(..., prog_bar=True)`` a
step, and a CSV logger) or ``default`` (that, with bar, summary and checkpoint).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from loop.tasks import Clock, Task

Contender = Callable[[Task, str, str], Clock]
MODES = ("bare", "logged", "default")


def by_hand(task: Task, mode: str, folder: str) -> Clock:  # noqa: ARG001 - a loop by hand has no modes
    """Train with a plain loop."""
    clock, model, loader = task.clock(), task.model(), task.loader()
    optimizer = task.optimizer(model.parameters())
    model.train()
    for x, y in loader:
        clock.tick()
        loss = model(x, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return clock


def _module(base: Any, task: Task, mode: str, clock: Clock) -> Any:  # noqa: ANN401 - each library's own class
    class Timed(base):  # type: ignore[misc]  # the base is each library's
        def __init__(self) -> None:
            super().__init__()
            self.model = task.model()

        def training_step(self, batch: Any, batch_idx: int) -> Any:  # noqa: ANN401, ARG002 - the interface's
            clock.tick()
            x, y = batch
            loss = self.model(x, y)
            if mode != "bare":
                self.log("loss", loss, prog_bar=True)
            return loss

        def configure_optimizers(self) -> Any:  # noqa: ANN401 - the interface's
            return task.optimizer(self.parameters())

    return Timed()


def drivetrain(task: Task, mode: str, folder: str) -> Clock:
    """Train with drivetrain's own classes."""
    import drivetrain as dt

    clock = task.clock()
    trainer = dt.Trainer(
        accelerator="cpu",
        devices=1,
        max_epochs=1,
        default_root_dir=folder,
        logger=mode != "bare",
        enable_progress_bar=mode == "default",
        enable_model_summary=mode == "default",
        enable_checkpointing=mode == "default",
    )
    trainer.fit(_module(dt.Module, task, mode, clock), task.loader())
    return clock


def _like_lightning(library: Any, logger: Any, task: Task, mode: str, folder: str) -> Clock:  # noqa: ANN401
    clock = task.clock()
    trainer = library.Trainer(
        accelerator="cpu",
        devices=1,
        max_epochs=1,
        default_root_dir=folder,
        logger=logger(folder) if mode != "bare" else False,
        enable_progress_bar=mode == "default",
        enable_model_summary=mode == "default",
        enable_checkpointing=mode == "default",
    )
    trainer.fit(_module(library.LightningModule, task, mode, clock), task.loader())
    return clock


def compat(task: Task, mode: str, folder: str) -> Clock:
    """Train with Lightning's classes as drivetrain mirrors them."""
    from drivetrain.compat.lightning.loggers import CSVLogger

    import drivetrain.compat.lightning as library

    return _like_lightning(library, CSVLogger, task, mode, folder)


def lightning(task: Task, mode: str, folder: str) -> Clock:
    """Train with Lightning."""
    import lightning.pytorch as library
    from lightning.pytorch.loggers import CSVLogger

    return _like_lightning(library, CSVLogger, task, mode, folder)


def fabric(task: Task, mode: str, folder: str) -> Clock:  # noqa: ARG001 - a loop of one's own has no modes
    """Train with a loop on Fabric."""
    from lightning.fabric import Fabric

    library = Fabric(accelerator="cpu", devices=1)
    library.launch()
    clock, model = task.clock(), task.model()
    model, optimizer = library.setup(model, task.optimizer(model.parameters()))
    loader = library.setup_dataloaders(task.loader())
    model.train()
    for x, y in loader:
        clock.tick()
        loss = model(x, y)
        optimizer.zero_grad()
        library.backward(loss)
        optimizer.step()
    return clock


def engine(task: Task, mode: str, folder: str) -> Clock:  # noqa: ARG001 - a loop of one's own has no modes
    """Train with a loop on drivetrain's Engine."""
    import drivetrain as dt

    found: list[Clock] = []

    def run(library: dt.Engine) -> None:
        clock, model = task.clock(), task.model()
        module, optimizer = library.setup(model, task.optimizer(model.parameters()))
        loader = library.setup_dataloaders(task.loader())
        module.train()
        for x, y in loader:
            clock.tick()
            loss = module(x, y)
            optimizer.zero_grad()
            library.backward(loss)
            optimizer.step()
        found.append(clock)

    dt.Engine(accelerator="cpu", devices=1).launch(run)
    return found[0]


def accelerate(task: Task, mode: str, folder: str) -> Clock:  # noqa: ARG001 - a loop of one's own has no modes
    """Train with a loop on Accelerate."""
    from accelerate import Accelerator

    library = Accelerator(cpu=True)
    clock, model = task.clock(), task.model()
    model, optimizer, loader = library.prepare(model, task.optimizer(model.parameters()), task.loader())
    model.train()
    for x, y in loader:
        clock.tick()
        loss = model(x, y)
        optimizer.zero_grad()
        library.backward(loss)
        optimizer.step()
    return clock


BY_HAND = "loop by hand"
TRAINERS: dict[str, Contender] = {
    "drivetrain": drivetrain,
    "drivetrain.compat.lightning": compat,
    "Lightning": lightning,
}
LOOPS: dict[str, Contender] = {"drivetrain Engine": engine, "Fabric": fabric, "Accelerate": accelerate}


def quiet() -> None:
    """Leave out the advice of all libraries: it is about workers and intervals that are chosen here."""
    import logging

    warnings.simplefilter("ignore")
    for name in ("lightning", "lightning.pytorch", "lightning.fabric"):
        logging.getLogger(name).setLevel(logging.ERROR)
