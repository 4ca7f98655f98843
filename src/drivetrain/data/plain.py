"""The feed of any other iterable of batches: every rank reads all of it."""

from __future__ import annotations

import copy
import itertools
import sys
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, final

from torch.utils.data import DataLoader, IterableDataset

from drivetrain.base.errors import DataError, DrivetrainWarning, Notice
from drivetrain.data.feed import Part, Share, Slice, again, dealt, repeated, share_out
from drivetrain.data.limits import limited
from drivetrain.data.seeds import mix, seeded
from drivetrain.data.sizes import batch_size
from drivetrain.data.states import load_states, states_of
from drivetrain.data.stream import beyond


@final
class PlainFeed(Part):
    """Any other iterable of batches: a list, an iterable dataset's loader. Every rank reads all of it."""

    def __init__(
        self, source: Iterable[Any], name: str, limit: tuple[str, float], seed: int, place: Slice
    ) -> None:
        self._source, self._name, self._seed, self._place = source, name, seed, place
        self._restored: Mapping[str, Any] | None = None
        self._is_begun = False
        self._dataset = source.dataset if isinstance(source, DataLoader) else None
        self._dataset_before: Any = None
        try:
            total: int | None = len(source)  # type: ignore[arg-type]  # what has no length says so
        except (TypeError, NotImplementedError):
            total = None
        self.length = total
        self.num_batches = limited(*limit, total, place.world_size)
        self._is_guess = _guesses_length(source)
        self._is_limited = not (limit[1] == 1.0 and type(limit[1]) is float)

    def span(self, epoch: int, start: int, stop: int | None, *, deal: bool) -> Iterator[tuple[Any, Share]]:
        """Read on from global batch ``start``; what comes before is read and thrown away."""
        if isinstance(self._source, Iterator) and not deal:
            raise DataError(
                "data.one-shot",
                f"{self._name} is an iterator, which can be read only once",
                values={self._name: self._source},
                because="every epoch reads the loader from its beginning",
                hint="pass a list, a DataLoader, or an object whose __iter__ starts anew",
            )
        if deal and self._is_guess and not self._is_limited and stop == self.length:
            stop = None  # an evaluation reads what is there; only an epoch of training is as long as was said
        if not deal and stop is not None and start >= stop:
            return iter(())  # to ask a loader that has come to its end for more would begin its next epoch
        if self.length is None or stop is None or stop <= self.length:
            at = start if not deal and self._begin() else 0
            stream = self._to_length(self._batches(epoch, deal=deal, first=at), stop, at)
            _pass_over(stream, start - at, self._name, is_told=self._place.rank == 0)
        else:
            if not deal:
                # Where it stands does not say how often it was begun anew: it is read again.
                self._restored, self._is_begun = None, True
            stream = repeated(lambda cycle: self._batches(again(epoch, cycle), deal=deal), start, stop)
        if deal:
            return dealt(stream, batch_size, self._place)
        return share_out(stream, batch_size, self._place, start)

    def state_dict(self, *, is_read: bool) -> dict[str, Any]:
        """Return where the source is, if it can tell, as torchdata's StatefulDataLoader can.

        Of another loader, what its dataset tells: as it was when the epoch began, since that is read again.
        """
        if self._restored is not None:
            return dict(self._restored)
        if not self._is_begun:
            return {}  # to ask a loader that was not begun may begin it
        sources = states_of([self._source])
        if sources[0] is not None:
            return {"source": sources}
        found = states_of([self._dataset])[0] if is_read else self._dataset_before
        return {} if found is None else {"dataset": [found]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Keep it until the next batches are asked for."""
        self._restored = state or None

    def close(self) -> None:
        """Do nothing: the source is the user's."""

    def _begin(self) -> bool:
        """Bring source and dataset to where they were; return whether nothing has to be read again then."""
        restored, self._restored = self._restored or {}, None
        self._is_begun = True
        load_states([self._source], restored.get("source", []))
        load_states([self._dataset], restored.get("dataset", []))
        self._dataset_before = copy.deepcopy(states_of([self._dataset])[0])
        return bool(restored.get("source"))

    def _to_length(self, stream: Iterator[Any], stop: int | None, at: int) -> Iterator[Any]:
        for number, batch in enumerate(itertools.islice(stream, None if stop is None else stop - at), at + 1):
            # Nobody may ask for more after the last one, so the look beyond it comes before.
            if number == stop == self.length and next(stream, _END) is not _END:
                if not self._is_guess:
                    raise beyond(self._name, number)
                if not self._is_limited:
                    self._warn_of_rest(number)
            yield batch

    def _warn_of_rest(self, length: int) -> None:
        if self._place.rank == 0:
            text = (
                f"{self._name} gives more than the {length} batches that its length says: each worker of an "
                "IterableDataset has a last batch of its own. The epoch ends there, and the rest is left "
                "out. Leave __len__ out of the dataset, and all is read; or pass num_workers=1 or "
                "batch_size=None"
            )
            warnings.warn(str(Notice("data.length", text)), DrivetrainWarning, stacklevel=2)

    def _batches(self, epoch: int, *, deal: bool, first: int = 0) -> Iterator[Any]:
        seed = mix(self._seed, epoch, 1) if deal else mix(self._seed, epoch)
        with seeded(seed):  # a DataLoader draws its workers' base seed when it is asked for an iterator
            if self._is_guess:
                # What torch counts to warn of it, at each batch: what is beyond is said here, or is read.
                vars(self._source).update(_IterableDataset_len_called=None)
            stream = iter(self._source)
        return stream if _draws_nothing(self._source) else _drawn(stream, seed, first)


_END = object()
_PATIENCE_S = 10.0
"""How long batches are passed over before somebody is told, and until the next time."""


def _pass_over(stream: Iterator[Any], count: int, name: str, *, is_told: bool) -> None:
    """Read the batches that a run has had already; where that takes long, say what goes on and how long."""
    began = told = time.monotonic()
    for number in range(1, count + 1):
        next(stream, None)
        now = time.monotonic()
        if is_told and now - told >= _PATIENCE_S:
            told = now
            left_s = (now - began) / number * (count - number)
            print(  # noqa: T201 - whoever waits reads it now; as a warning it would be said once
                f"drivetrain: {name}: read again {number} of the {count} batches that the run has had, "
                f"{left_s:.0f} s left; one with state_dict and load_state_dict goes on where it was",
                file=sys.stderr,
                flush=True,
            )


def _guesses_length(source: Any) -> bool:
    """Whether a length is made from the samples' number, and workers cut them into other batches."""
    is_stream = isinstance(source, DataLoader) and isinstance(source.dataset, IterableDataset)
    is_torchs = is_stream and type(source).__len__ is DataLoader.__len__
    return is_torchs and source.num_workers > 1 and source.batch_size is not None


def _draws_nothing(source: Any) -> bool:
    """Whether reading a batch surely takes no random number of this process."""
    is_plain_loader = isinstance(source, DataLoader) and type(source).__iter__ is DataLoader.__iter__
    return isinstance(source, (list, tuple)) or (is_plain_loader and source.num_workers > 0)


def _drawn(stream: Iterator[Any], seed: int, first: int) -> Iterator[Any]:
    """Read each batch under a seed of its own: a generator shuffles when it is first asked, not before."""
    for number in itertools.count(first):
        with seeded(mix(seed, number)):
            batch = next(stream, _END)
        if batch is _END:
            return
        yield batch
