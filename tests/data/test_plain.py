from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from drivetrain import DataError, DrivetrainWarning
from drivetrain.data import plain
from drivetrain.data.make import make_feed


def read(source: Any, rank: int = 0, world_size: int = 1, epoch: int = 0, start: int = 0) -> list[Any]:
    feed = make_feed(source, "the loader", "limit", 1.0, 0, rank, world_size)
    return [batch for batch, share in feed.training(epoch, start) if share.size]


class Shuffling:
    """Draws its order when the first batch is asked for, as every generator does."""

    def __iter__(self) -> Iterator[int]:
        order = list(range(6))
        random.shuffle(order)
        for number in order:
            yield number * 100 + int(torch.randint(100, ()))


def test_a_generator_draws_under_the_epochs_seed_whatever_the_callers_random_state() -> None:
    torch.manual_seed(1)
    random.seed(1)
    whole = read(Shuffling())
    before = random.getstate(), torch.get_rng_state()
    torch.manual_seed(2)
    random.seed(2)
    halves = [read(Shuffling(), rank, 2) for rank in range(2)]
    assert [number for pair in zip(*halves, strict=True) for number in pair] == whole
    assert read(Shuffling(), start=4) == whole[4:]
    assert read(Shuffling(), epoch=1) != whole
    torch.manual_seed(1)
    random.seed(1)
    assert (random.getstate(), torch.get_rng_state().tolist()) == (before[0], before[1].tolist())


def test_a_loader_with_an_iteration_of_its_own_has_one_order() -> None:
    class Late(DataLoader):
        def __iter__(self) -> Iterator[Any]:
            yield from super().__iter__()

    def loader() -> Late:
        return Late(torch.arange(8), batch_size=2, shuffle=True)

    torch.manual_seed(1)
    first = [batch.tolist() for batch in read(loader())]
    torch.manual_seed(2)
    assert [batch.tolist() for batch in read(loader())] == first


def test_a_long_way_back_into_a_stream_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert read(range(6), start=4) == [4, 5]
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(plain, "_PATIENCE_S", 0.0)
    for rank in (0, 1):
        assert read(range(6), rank, 2, start=4) == [4 + rank]
    told = capsys.readouterr().err.splitlines()
    assert [line.partition(" batches")[0] for line in told] == [
        f"drivetrain: the loader: read again {number} of the 4" for number in (1, 2, 3, 4)
    ]
    assert told[-1].endswith(" 0 s left; one with state_dict and load_state_dict goes on where it was")


class Cursor:
    """A stream that goes on where it was, as torchdata's loaders do."""

    def __init__(self) -> None:
        self.at = 0

    def __iter__(self) -> Iterator[int]:
        for _ in range(4):
            self.at += 1
            yield self.at

    def state_dict(self) -> dict[str, int]:
        return {"at": self.at}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.at = state["at"]


def test_a_source_that_knows_where_it_is_goes_on_there() -> None:
    feed = make_feed(Cursor(), "the loader", "limit", 1.0, 0)
    stream = feed.training(0, 0)
    assert [next(stream)[0] for _ in range(3)] == [1, 2, 3]
    kept = feed.state_dict(is_read=False)
    resumed = make_feed(Cursor(), "the loader", "limit", 1.0, 0)
    resumed.load_state_dict(kept)
    assert resumed.state_dict(is_read=False) == kept
    assert [(batch, share.number) for batch, share in resumed.training(0, 3)] == [
        (4, 3),
        (5, 4),
        (6, 5),
        (7, 6),
    ]
    assert [batch for batch, _ in resumed.training(1, 0)] == [8, 9, 10, 11]


def test_a_length_that_is_too_short_loses_nothing_in_silence() -> None:
    class Liar:
        def __len__(self) -> int:
            return 2

        def __iter__(self) -> Iterator[int]:
            return iter(range(3))

    with pytest.raises(DataError, match=r"data.length") as caught:
        read(Liar())
    assert caught.value.values["length"] == 2


class Dealt(IterableDataset):
    """Ten samples, which workers share, and their number."""

    def __len__(self) -> int:
        return 10

    def __iter__(self) -> Iterator[int]:
        found = get_worker_info()
        return iter(range(10)) if found is None else iter(range(found.id, 10, found.num_workers))


@pytest.mark.parametrize("batch_size", [1, 4])
def test_a_length_that_workers_make_untrue_is_a_warning_and_evaluations_read_all(batch_size: int) -> None:
    loader = DataLoader(Dealt(), batch_size, num_workers=2)
    feed = make_feed(loader, "the loader", "limit", 1.0, 0)
    assert len(loader) == {1: 10, 4: 3}[batch_size]
    found = [batch for batch, _ in feed.evaluation()]
    assert sorted(torch.cat(found).tolist()) == [*range(10)]
    if batch_size == 1:
        assert len(read(loader)) == 10
        return
    assert len(found) == 4
    with pytest.warns(DrivetrainWarning, match=r"data.length.*num_workers=1"):
        assert len(read(loader)) == 3
    for limit in (3, 0.99):
        limited = make_feed(loader, "the loader", "limit", limit, 0)
        assert len([*limited.evaluation()]) == len([*limited.training(0, 0)]) == int(min(limit * 3, 3))


@pytest.mark.filterwarnings("ignore:Length of IterableDataset")  # torch's, at each batch
@pytest.mark.parametrize("how", [{"num_workers": 1, "batch_size": 4}, {"num_workers": 2, "batch_size": None}])
def test_a_length_that_is_wrong_without_a_guess_stays_an_error(how: dict[str, Any]) -> None:
    class More(Dealt):
        def __len__(self) -> int:
            return 4

    with pytest.raises(DataError, match=r"data.length"):
        read(DataLoader(More(), **how))


class Counting(IterableDataset):
    """Gives other numbers each time that it is begun."""

    def __init__(self) -> None:
        self.times = 0

    def __iter__(self) -> Iterator[int]:
        self.times += 1
        return iter(range(10 * self.times, 10 * self.times + 4))

    def state_dict(self) -> dict[str, int]:
        return {"times": self.times}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.times = state["times"]


def counting() -> Any:
    return make_feed(DataLoader(Counting(), batch_size=None), "the loader", "limit", 1.0, 0)


@pytest.mark.parametrize("read", [1, 3])
def test_a_stream_whose_dataset_has_state_is_read_again_from_the_state_of_the_epochs_begin(read: int) -> None:
    feed = counting()
    assert [batch for batch, _ in feed.training(0, 0)] == [10, 11, 12, 13]
    between, stream = feed.state_dict(is_read=True), feed.training(1, 0)
    assert [next(stream)[0] for _ in range(read)] == [20, 21, 22][:read]
    resumed = counting()
    resumed.load_state_dict(feed.state_dict(is_read=False))
    assert [batch for batch, _ in resumed.training(1, read)] == [20, 21, 22, 23][read:]
    resumed = counting()
    resumed.load_state_dict(between)
    assert [batch for batch, _ in resumed.training(1, 0)] == [20, 21, 22, 23]


class Jealous(Cursor):
    """Is begun by whoever asks where it is, as torchdata's loader is; has come to its end after four."""

    def __len__(self) -> int:
        return 4

    def state_dict(self) -> dict[str, int]:
        self.at += 100 * (self.at == 0)
        return super().state_dict()


def test_a_source_is_not_asked_before_it_is_begun_nor_for_more_than_it_has() -> None:
    feed = make_feed(Jealous(), "the loader", "limit", 1.0, 0)
    assert feed.state_dict(is_read=True) == {}
    stream = feed.training(0, 0)
    assert [next(stream)[0] for _ in range(4)] == [1, 2, 3, 4]
    resumed = make_feed(Jealous(), "the loader", "limit", 1.0, 0)
    resumed.load_state_dict(feed.state_dict(is_read=False))
    assert [*resumed.training(0, 4)] == []
    assert [batch for batch, _ in resumed.training(1, 0)] == [5, 6, 7, 8]
