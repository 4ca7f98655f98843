"""Which loader a run reads: what was passed, the data module's, or the module's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from drivetrain.base.errors import DataError, TrainerError
from drivetrain.data import CombinedLoader, holds_loaders, is_loader
from drivetrain.events import is_unused
from drivetrain.modules import DataModule, Module


def find_loader(kind: str, passed: Any, datamodule: DataModule | None, module: Module) -> Any:
    """Return the ``kind`` (train, val, test, predict) loader, or None where nobody gives one."""
    if passed is not None:
        return passed
    for thing in (datamodule, module):
        method = getattr(thing, f"{kind}_dataloader", None)
        if method is not None and not is_unused(method):
            return method()
    return None


def needed_loader(kind: str, verb: str, passed: Any, datamodule: DataModule | None, module: Module) -> Any:
    """Return the loader.

    Raises:
        TrainerError [trainer.no-data]: nobody gives one.
    """
    found = find_loader(kind, passed, datamodule, module)
    if found is None:
        argument = "train_dataloaders" if kind == "train" else "dataloaders"
        raise TrainerError(
            "trainer.no-data",
            f"trainer.{verb} has no data",
            values={
                "module": type(module).__name__,
                "datamodule": None if datamodule is None else type(datamodule).__name__,
            },
            because=f"{verb} reads what is passed, else datamodule.{kind}_dataloader(), else the module's",
            hint=f"pass {argument}=DataLoader(...)",
        )
    return found


def training_loader(found: Any) -> Any:
    """Return the training loader; several, in a list or mapping, are read side by side.

    Raises:
        DataError [data.combined-mode]: loaders that are to be read one after the other.
    """
    if isinstance(found, CombinedLoader) and found.mode == "sequential":
        raise DataError(
            "data.combined-mode",
            "fit on a CombinedLoader(..., mode='sequential')",
            values={"mode": found.mode},
            because="a training step has a batch of every loader",
            hint="pass mode='max_size_cycle', 'max_size' or 'min_size'; to train on one loader after the "
            "other, join the datasets: torch.utils.data.ConcatDataset",
        )
    if isinstance(found, (list, tuple)) and len(found) == 1 and is_loader(found[0]):
        return found[0]
    return CombinedLoader(found, "max_size_cycle") if holds_loaders(found) else found


def all_loaders(found: Any) -> list[Any]:
    """Return the loaders to evaluate on, one after the other: those in a list or mapping, or the only one."""
    if found is None:
        return []
    if isinstance(found, CombinedLoader) and found.mode == "sequential":
        return list(found.flattened)
    if holds_loaders(found):
        return list(found.values() if isinstance(found, Mapping) else found)
    return [found]
