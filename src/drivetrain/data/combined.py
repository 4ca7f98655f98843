"""Several loaders read side by side: one batch of each in every step."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, final

from torch.utils.data import DataLoader

from drivetrain.base.errors import DataError
from drivetrain.data.feed import Feed, Part, Share
from drivetrain.data.limits import limited

MODES = ("min_size", "max_size", "max_size_cycle", "sequential")


@final
class CombinedLoader:
    """Loaders in a list or mapping, as one: ``CombinedLoader({"a": one, "b": two}, "min_size")``.

    ``min_size`` ends with the shortest, ``max_size`` goes on with None in the place of those that ended,
    ``max_size_cycle`` begins them anew; ``sequential`` reads one after the other, as evaluation does with a
    list of loaders. Iterating gives ``(batch, batch_idx, dataloader_idx)``.

    Raises:
        DataError [data.combined-mode]: no such mode.
    """

    def __init__(self, iterables: Any, mode: str = "min_size") -> None:
        if mode not in MODES:
            raise DataError(
                "data.combined-mode",
                f"CombinedLoader(..., mode={mode!r})",
                values={"mode": mode},
                because=f"mode is one of {', '.join(MODES)}",
                hint="pass mode='max_size_cycle'",
            )
        self.iterables, self.mode = iterables, mode
        self.flattened, self._build = flattened(iterables)

    def __len__(self) -> int:
        sizes = [len(one) for one in self.flattened]
        if self.mode == "sequential":
            return sum(sizes)
        return min(sizes) if self.mode == "min_size" else max(sizes)

    def __iter__(self) -> Iterator[tuple[Any, int, int]]:
        if self.mode == "sequential":
            for number, one in enumerate(self.flattened):
                yield from ((batch, index, number) for index, batch in enumerate(one))
            return
        streams = [_cycle(one) if self.mode == "max_size_cycle" else iter(one) for one in self.flattened]
        for index in range(len(self)):
            yield self._build([next(stream, None) for stream in streams]), index, 0

    def rebuilt(self, entries: Sequence[Any]) -> Any:
        """Return the nesting of the loaders with these in their places."""
        return self._build(entries)


def _cycle(loader: Any) -> Iterator[Any]:
    while True:
        yield from loader


def is_loader(thing: object) -> bool:
    """Whether a thing gives batches, and is none itself."""
    is_batch = (
        isinstance(thing, (Mapping, list, tuple, str)) or hasattr(thing, "__array__") or hasattr(thing, "dim")
    )
    return isinstance(thing, (DataLoader, CombinedLoader)) or (hasattr(thing, "__iter__") and not is_batch)


def holds_loaders(thing: object) -> bool:
    """Whether a thing is a list, tuple or mapping of loaders, at any depth."""
    inner = (
        thing.values() if isinstance(thing, Mapping) else thing if isinstance(thing, (list, tuple)) else ()
    )
    return bool(inner) and all(is_loader(one) or holds_loaders(one) for one in inner)


def flattened(nesting: Any) -> tuple[list[Any], Callable[[Sequence[Any]], Any]]:
    """Return the loaders of a nesting in order, and what puts as many other things in their places."""
    if not holds_loaders(nesting):
        return [nesting], lambda entries: entries[0]
    keys = list(nesting) if isinstance(nesting, Mapping) else None
    parts = [flattened(one) for one in (nesting.values() if isinstance(nesting, Mapping) else nesting)]
    bounds = [0, *itertools.accumulate(len(leaves) for leaves, _ in parts)]

    def build(entries: Sequence[Any]) -> Any:
        built = [
            make(entries[first:last])
            for (_, make), first, last in zip(parts, bounds, bounds[1:], strict=False)
        ]
        return dict(zip(keys, built, strict=True)) if keys is not None else type(nesting)(built)

    return [leaf for leaves, _ in parts for leaf in leaves], build


@final
class CombinedFeed(Feed):
    """One batch of every loader in each step; a step's samples are those of the first loader's batch."""

    def __init__(
        self, loader: CombinedLoader, parts: list[Part], limit: tuple[str, float], world_size: int
    ) -> None:
        self._loader, self._parts = loader, parts
        self._indices: Any = None
        self.is_counted = parts[0].is_counted
        lengths = [part.length for part in parts]
        if None in lengths and loader.mode != "min_size":
            raise DataError(
                "data.combined-length",
                f"CombinedLoader(mode={loader.mode!r}) with a loader without a length",
                values={"lengths": lengths},
                because="it goes on until the longest has ended, which nobody knows beforehand",
                hint="pass mode='min_size', or give the dataset a __len__",
            )
        known = [length for length in lengths if length is not None]
        self.length = None
        if len(known) == len(lengths):
            self.length = min(known) if loader.mode == "min_size" else max(known)
        self.num_batches = limited(*limit, self.length, world_size)

    def training(self, epoch: int, start: int) -> Iterator[tuple[Any, Share]]:
        """Return this rank's batches of an epoch, from global batch ``start`` on."""
        return self._joined(epoch, start, deal=False)

    def evaluation(self) -> Iterator[tuple[Any, Share]]:
        """Return this rank's batches, once through."""
        return self._joined(0, 0, deal=True)

    @property
    def indices(self) -> Any:
        """The datasets' indices of the samples in the newest batch, nested as the loaders are."""
        return self._indices

    def state_dict(self, *, is_read: bool) -> dict[str, Any]:
        """Return each loader's, in order; nothing where none has any."""
        states = [part.state_dict(is_read=is_read) for part in self._parts]
        return {"parts": states} if any(states) else {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Give them to the loaders."""
        for part, kept in zip(self._parts, state.get("parts", []), strict=False):
            part.load_state_dict(kept)

    def close(self) -> None:
        """End the loaders' workers."""
        for part in self._parts:
            part.close()

    def _joined(self, epoch: int, start: int, *, deal: bool) -> Iterator[tuple[Any, Share]]:
        streams = [part.span(epoch, start, self._stop(part), deal=deal) for part in self._parts]
        if self._loader.mode == "max_size":
            rows: Iterator[Any] = itertools.zip_longest(*streams)
        else:
            rows = zip(*streams, strict=False)
        for row in rows:
            shares = [entry[1] for entry in row if entry is not None]
            # A stand-in for a rank without a batch of its own is None beside loaders that go on.
            share = max(shares, key=lambda one: (one.consumed, one.size > 0))
            batches = [
                entry[0] if entry is not None and (entry[1].size or not share.size) else None for entry in row
            ]
            numbers = [
                None if batch is None else part.indices
                for batch, part in zip(batches, self._parts, strict=True)
            ]
            self._indices = self._loader.rebuilt(numbers)
            yield self._loader.rebuilt(batches), share

    def _stop(self, part: Part) -> int | None:
        if self._loader.mode == "max_size" and part.length is not None and self.num_batches is not None:
            return min(part.length, self.num_batches)
        return self.num_batches
