"""The feed of a map-style loader: indices are sliced, and a rank fetches only what it uses."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, final

import torch
from torch.utils.data import DataLoader

from drivetrain.base.errors import DataError
from drivetrain.data.feed import Part, Share, Slice, again, dealt, repeated, share_out
from drivetrain.data.fetching import fetched, fetcher
from drivetrain.data.limits import limited
from drivetrain.data.seeds import mix
from drivetrain.data.states import load_states, states_of
from drivetrain.data.stream import IndexStream
from drivetrain.data.workers import SeededDataset, Tagged


@final
class IndexedFeed(Part):
    """A map-style loader: only indices are sliced, so a rank fetches nothing that it does not use.

    The user's loader is not touched; what we pick is fetched here, or by a twin over the same dataset.
    """

    def __init__(self, loader: DataLoader[Any], limit: tuple[str, float], seed: int, place: Slice) -> None:
        self._stream = IndexStream(loader, seed)
        self.is_counted = self._stream.is_batched
        self._name, self._dataset = limit[0], loader.dataset
        self._restored: Mapping[str, Any] | None = None
        self._samplers_before: list[Any] = []
        self._place, self._seed = place, seed
        try:
            total: int | None = len(self._stream)
        except (TypeError, NotImplementedError):
            total = None
        self.length = total
        self.num_batches = limited(*limit, total, place.world_size)
        self._newest: Any = None
        self._tags = loader.num_workers > 0
        self._fetcher = fetcher(loader)
        self._twin = None if self._fetcher else _Twin(loader, is_batched=self._stream.is_batched)

    def span(self, epoch: int, start: int, stop: int | None, *, deal: bool) -> Iterator[tuple[Any, Share]]:
        """Seek in the epoch's order: nothing that comes before is read."""
        length = self.length
        if not deal:
            self._begin()
        if length is None or (stop is not None and stop <= length):
            stream = self._stream.epoch(epoch, start, stop)
        else:
            stream = repeated(lambda cycle: self._stream.epoch(again(epoch, cycle), 0, None), start, stop)
        if deal:
            return self._fetch(dealt(stream, self._size, self._place), mix(self._seed, epoch, 1))
        return self._fetch(share_out(stream, self._size, self._place, start), mix(self._seed, epoch))

    def _begin(self) -> None:
        """Bring the user's objects to where they were when this epoch began, and note where that is."""
        restored, self._restored = self._restored, None
        if restored is not None:
            load_states(self._stream.samplers, restored["samplers"])
            load_states([self._dataset], restored["dataset"])
        self._samplers_before = states_of(self._stream.samplers)

    def state_dict(self, *, is_read: bool) -> dict[str, Any]:
        """Return the samplers' state from which the epoch is listed, and the dataset's."""
        if self._restored is not None:
            return dict(self._restored)
        samplers = states_of(self._stream.samplers) if is_read else self._samplers_before
        found = {"samplers": samplers, "dataset": states_of([self._dataset])}
        return found if any(one is not None for part in found.values() for one in part) else {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Keep it until the next batches are asked for."""
        self._restored = state or None

    def close(self) -> None:
        """Let the workers go."""
        if self._twin is not None:
            self._twin.close()

    @property
    def indices(self) -> Any:
        """The dataset's indices of the samples in the batch that was given last; None before the first."""
        if self._newest is None or not self._stream.is_batched:
            return None if self._newest is None else [self._newest]
        return self._newest.tolist() if isinstance(self._newest, torch.Tensor) else list(self._newest)

    def _size(self, indices: Any) -> int:
        return len(indices) if self._stream.is_batched else 1

    def _fetch(self, picked: Iterator[tuple[Any, Share]], seed: int) -> Iterator[tuple[Any, Share]]:
        shares: deque[tuple[Any, Share]] = deque()
        picks = self._indices(picked, shares, seed)
        if self._twin is not None:
            return self._paired(self._twin.read(picks, seed), shares)
        assert self._fetcher is not None  # noqa: S101 - there is one or the other
        return self._paired(fetched(picks, self._fetcher), shares)

    def _paired(
        self, batches: Iterator[Any], shares: deque[tuple[Any, Share]]
    ) -> Iterator[tuple[Any, Share]]:
        for batch in batches:
            self._newest, share = shares.popleft()
            yield batch, share
        if shares:
            number = shares[0][1].number
            raise DataError(
                "data.ended-early",
                f"the dataset ended the loader at batch {number}, before its sampler did",
                values={"dataset": type(self._dataset).__name__, "batch": number},
                because="a StopIteration that leaves __getitem__ looks like the end of the data",
                hint="let __getitem__ raise IndexError or another error, or catch StopIteration there",
            )

    def _indices(
        self, picked: Iterator[tuple[Any, Share]], shares: deque[tuple[Any, Share]], seed: int
    ) -> Iterator[Any]:
        for indices, share in picked:
            shares.append((indices, share))
            yield Tagged(indices, mix(seed, share.number)) if self._tags else indices


@final
class _Picks:
    """The sampler of the twin loader: gives what the feed put into it."""

    def __init__(self) -> None:
        self.source: Iterator[Any] = iter(())

    def __iter__(self) -> Iterator[Any]:
        return self.source


@final
class _Twin:
    """torch's loader over the user's dataset, with the user's workers, reading what it is given."""

    def __init__(self, loader: DataLoader[Any], *, is_batched: bool) -> None:
        self._picks, self._generator = _Picks(), torch.Generator()
        kept: dict[str, Any] = {
            "num_workers": loader.num_workers,
            "collate_fn": loader.collate_fn,
            "pin_memory": loader.pin_memory,
            "timeout": loader.timeout,
            "worker_init_fn": loader.worker_init_fn,
        }
        dataset: Any = loader.dataset
        if loader.num_workers:
            dataset = SeededDataset(dataset)
            kept["multiprocessing_context"] = loader.multiprocessing_context
            kept["prefetch_factor"] = loader.prefetch_factor
            kept["persistent_workers"] = loader.persistent_workers
        chosen: dict[str, Any] = (
            {"batch_sampler": self._picks} if is_batched else {"batch_size": None, "sampler": self._picks}
        )
        self._loader: DataLoader[Any] = DataLoader(dataset, generator=self._generator, **chosen, **kept)

    def read(self, picks: Iterator[Any], seed: int) -> Iterator[Any]:
        """Read a batch for each entry."""
        self._picks.source = picks
        # The loader draws its workers' base seed here: from a generator of ours, not from the user's stream.
        self._generator.manual_seed(seed)
        return iter(self._loader)

    def close(self) -> None:
        """Let the workers go."""
        self._loader._iterator = None  # noqa: SLF001 - torch has no public way to end persistent workers
