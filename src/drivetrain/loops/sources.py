"""Which loader a run reads: what was passed, the data module's, or the module's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.utils.data import DataLoader

from drivetrain.base.errors import DataError, TrainerError
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


def one_loader(found: Any) -> Any:
    """Return the one training loader.

    Raises:
        DataError [data.several-loaders]: there are several.
    """
    if isinstance(found, (list, tuple)) and len(found) == 1 and _is_loader(found[0]):
        return found[0]
    several = isinstance(found, (list, tuple)) and found and all(map(_is_loader, found))
    if several or (isinstance(found, Mapping) and found and all(map(_is_loader, found.values()))):
        raise DataError(
            "data.several-loaders",
            f"training reads {len(found)} loaders",
            values={
                "train_dataloaders": [
                    type(one).__name__ for one in (found.values() if isinstance(found, Mapping) else found)
                ]
            },
            because="this release trains on one loader",
            hint="join the datasets: DataLoader(torch.utils.data.ConcatDataset([...]))",
        )
    return found


def all_loaders(found: Any) -> list[Any]:
    """Return the loaders to evaluate on: those in a list, or the only one."""
    if found is None:
        return []
    if isinstance(found, (list, tuple)) and found and all(map(_is_loader, found)):
        return list(found)
    if isinstance(found, Mapping):
        raise DataError(
            "data.several-loaders",
            "loaders in a mapping",
            values={"dataloaders": list(found)},
            because="several loaders to evaluate on come in a list; steps get their number as dataloader_idx",
            hint="pass a list",
        )
    return [found]


def _is_loader(thing: object) -> bool:
    is_batch = isinstance(thing, (torch.Tensor, Mapping, list, tuple, str)) or hasattr(thing, "__array__")
    return isinstance(thing, DataLoader) or (hasattr(thing, "__iter__") and not is_batch)
