"""The user's own batches as indices, in the order of an epoch. Iterated, never rebuilt."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, final

import torch
from torch.utils.data import DataLoader

from drivetrain.base.errors import DataError
from drivetrain.data.seeds import mix, seeded


@final
class IndexStream:
    """What a map-style loader's sampler says, made a function of (seed, epoch).

    The sampler is iterated under a seed, so that every rank sees the same order; torch's own,
    with ``shuffle=True``, and the user's are treated alike. A generator that the user gave keeps
    its seed as a part of the order.
    """

    def __init__(self, loader: DataLoader[Any], seed: int) -> None:
        self.is_batched = loader.batch_sampler is not None
        self._sampler: Any = loader.batch_sampler if self.is_batched else loader.sampler
        inner = (self._sampler, getattr(self._sampler, "sampler", None))
        self.samplers: list[Any] = [sampler for sampler in inner if sampler is not None]
        found = [getattr(sampler, "generator", None) for sampler in self.samplers]
        self._generators = list({id(one): one for one in found if isinstance(one, torch.Generator)}.values())
        self._seed = seed

    def __len__(self) -> int:
        """Return how many batches an epoch has; TypeError for a sampler that does not know."""
        return len(self._sampler)

    def epoch(self, epoch: int, start: int, stop: int | None) -> Iterator[Any]:
        """Yield the indices of the batches ``start`` to ``stop``; a single index where batching is off."""
        for sampler in self.samplers:
            if callable(getattr(sampler, "set_epoch", None)):
                sampler.set_epoch(epoch)
        try:
            length = len(self._sampler)
        except (TypeError, NotImplementedError):
            return itertools.islice(self._lazily(epoch), start, stop)
        with seeded(mix(self._seed, epoch), self._generators):
            stream = iter(self._sampler)
            batches = [_listed(batch) for batch in itertools.islice(stream, stop)]
            if stop == length and next(stream, None) is not None:
                raise beyond(type(self._sampler).__name__, length)
        return iter(batches[start:] if start else batches)

    def _lazily(self, epoch: int) -> Iterator[Any]:
        # An endless sampler cannot be listed: each of its batches is drawn under a seed of its own.
        batches = iter(self._sampler)
        for number in itertools.count():
            with seeded(mix(self._seed, epoch, number), self._generators):
                batch = next(batches, None)
            if batch is None:
                return
            yield _listed(batch)


def _listed(batch: Any) -> Any:
    """Return a batch of indices as it is; one that can be read once, as a list."""
    return list(batch) if isinstance(batch, Iterator) else batch


def beyond(name: str, length: int) -> DataError:
    """Return the error of a thing that gives more batches than its length says."""
    return DataError(
        "data.length",
        f"{name} says that it has {length} batches, and gives more",
        values={"name": name, "length": length},
        because="an epoch is as long as the loader says; what comes after would be left out in silence",
        hint="correct its __len__, or leave __len__ out",
    )
