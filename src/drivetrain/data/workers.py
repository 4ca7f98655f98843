"""One seed a batch inside loader workers, so that a resumed run draws the same augmentation."""

from __future__ import annotations

from typing import Any, NamedTuple

from torch.utils.data import Dataset

from drivetrain.data.seeds import seed_all


class Tagged(NamedTuple):
    """What travels to a worker: indices of a batch (or one index), and the seed of its draws."""

    indices: Any
    seed: int


class SeededDataset(Dataset[Any]):
    """The user's dataset inside a worker: seeds the worker's generators before each batch.

    Everything else reaches the user's dataset, so that ``worker_init_fn`` and
    ``get_worker_info().dataset`` see its attributes.
    """

    def __init__(self, dataset: Any) -> None:
        self.__dict__["_dataset"] = dataset

    def __getitems__(self, tagged: Tagged) -> Any:
        """Fetch a batch as torch's fetcher would have done."""
        seed_all(tagged.seed)
        dataset = self.__dict__["_dataset"]
        if getattr(dataset, "__getitems__", None):
            return dataset.__getitems__(tagged.indices)
        return [dataset[index] for index in tagged.indices]

    def __getitem__(self, tagged: Tagged) -> Any:
        """Fetch one entry of a loader that does not batch."""
        seed_all(tagged.seed)
        return self.__dict__["_dataset"][tagged.indices]

    def __len__(self) -> int:
        """Return the dataset's length."""
        return len(self.__dict__["_dataset"])

    def __getattr__(self, name: str) -> Any:
        """Reach through to the dataset."""
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.__dict__["_dataset"], name)

    def __setattr__(self, name: str, value: Any) -> None:
        """Set on the dataset."""
        setattr(self.__dict__["_dataset"], name, value)

    def __getstate__(self) -> dict[str, Any]:
        """Pickle for spawned workers."""
        return dict(self.__dict__)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore in a spawned worker."""
        self.__dict__.update(state)
