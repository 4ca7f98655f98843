"""A batch that is made here is the batch that torch's loader makes."""

import itertools
import warnings
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader, Dataset, Subset, TensorDataset, default_collate, random_split
from torch.utils.data._utils.collate import default_collate_fn_map

from drivetrain.data import make_feed
from drivetrain.data.fetching import fetched, fetcher

DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.uint8, torch.bool, torch.complex64)


def filled(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    return torch.randint(0, 2, shape).to(dtype) if dtype is torch.bool else (torch.randn(shape) * 9).to(dtype)


def are_same(one: Any, other: Any) -> bool:
    return (
        type(one) is type(other) is list
        and len(one) == len(other)
        and all(
            left.dtype is right.dtype
            and left.shape == right.shape
            and left.stride() == right.stride()
            and left.requires_grad == right.requires_grad
            and torch.equal(left, right)
            for left, right in zip(one, other, strict=True)
        )
    )


@given(
    shapes=st.lists(st.lists(st.integers(0, 3), max_size=3), min_size=1, max_size=3),
    dtype=st.sampled_from(DTYPES),
    batch_size=st.integers(1, 7),
    layout=st.sampled_from(("plain", "transposed", "strided", "learned")),
    is_subset=st.booleans(),
)
@settings(max_examples=150, deadline=None)
def test_tensor_datasets_give_the_loaders_own_batches(
    shapes: list[list[int]], dtype: torch.dtype, batch_size: int, layout: str, is_subset: bool
) -> None:
    tensors = [filled((10, *shape), dtype) for shape in shapes]
    if layout == "transposed":
        tensors = [one.movedim(0, -1).contiguous().movedim(-1, 0) for one in tensors]
    elif layout == "strided":
        tensors = [filled((20, *shape), dtype)[::2] for shape in shapes]
    elif layout == "learned" and dtype.is_floating_point:
        tensors = [one.requires_grad_() for one in tensors]
    dataset: Any = TensorDataset(*tensors)
    if is_subset:
        dataset = Subset(Subset(dataset, range(9, 0, -1)), [7, 0, 0, 3, 5])
    loader = DataLoader(dataset, batch_size=batch_size)
    fetch = fetcher(loader)
    assert fetch is not None
    for indices, expected in zip(loader.batch_sampler or (), loader, strict=True):
        assert are_same(fetch(indices), expected)


def test_channels_last_rows_keep_their_layout() -> None:
    images = torch.randn(8, 3, 4, 4).to(memory_format=torch.channels_last)
    loader = DataLoader(TensorDataset(images), batch_size=4)
    (batch, _), *_ = make_feed(loader, "loader", "limit", 1.0, 0).evaluation()
    assert are_same(batch, next(iter(loader)))


def test_a_tensor_dataset_is_read_without_asking_for_single_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TensorDataset, "__getitem__", lambda *_: pytest.fail("a single sample was read"))
    train, _ = random_split(TensorDataset(torch.arange(20.0)), [15, 5])
    feed = make_feed(DataLoader(train, batch_size=5, shuffle=True), "loader", "limit", 1.0, 0)
    rows = [row for batch, _ in feed.training(0, 0) for row in batch[0].tolist()]
    assert sorted(rows) == sorted(float(index) for index in train.indices)


@pytest.mark.parametrize(
    "indices", [[-1, 2], torch.tensor([1, 2]), (3, 4), [torch.tensor(2), torch.tensor(0)]]
)
def test_unusual_indices_mean_what_they_mean_to_the_loader(indices: Any) -> None:
    dataset = TensorDataset(torch.randn(6, 2), torch.arange(6))
    loader = DataLoader(dataset, batch_sampler=[indices])
    fetch = fetcher(loader)
    assert fetch is not None
    assert are_same(fetch(indices), next(iter(loader)))


@pytest.mark.parametrize("indices", [[99], [[0, 1], [2]], ["a"], [0.5]])
def test_a_wrong_index_fails_as_it_does_in_the_loader(indices: Any) -> None:
    dataset = TensorDataset(torch.randn(6, 2))
    loader = DataLoader(dataset, batch_sampler=[indices])
    fetch = fetcher(loader)
    assert fetch is not None
    with pytest.raises(Exception) as expected:  # noqa: PT011 - whatever torch raises
        next(iter(loader))
    with pytest.raises(type(expected.value)) as found:
        fetch(indices)
    assert str(found.value) == str(expected.value)


class Doubled(TensorDataset):
    """A subclass with samples of its own."""

    def __getitem__(self, index: int) -> Any:
        return tuple(2 * tensor[index] for tensor in self.tensors)


class Grouped(Dataset[Any]):
    """Fetches a batch of samples at once, in its own way."""

    def __getitems__(self, indices: list[int]) -> list[int]:
        return [10 * index for index in indices]

    def __getitem__(self, index: int) -> int:
        raise NotImplementedError

    def __len__(self) -> int:
        return 4


def test_samples_that_a_dataset_makes_itself_are_asked_for() -> None:
    doubled = fetcher(DataLoader(Doubled(torch.arange(4.0)), batch_size=2))
    grouped = fetcher(DataLoader(Grouped(), batch_size=2))
    assert doubled is not None
    assert grouped is not None
    assert doubled([1, 3])[0].tolist() == [2.0, 6.0]
    assert grouped([1, 3]).tolist() == [10, 30]


def test_a_collate_function_is_called_with_samples() -> None:
    seen: list[Any] = []
    dataset = TensorDataset(torch.arange(4))
    fetch = fetcher(DataLoader(dataset, batch_size=2, collate_fn=seen.append))
    assert fetch is not None
    fetch([0, 1])
    assert seen == [[(torch.tensor(0),), (torch.tensor(1),)]]


def test_a_changed_default_for_tensors_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    def summed(batch: Any, *, collate_fn_map: Any = None) -> torch.Tensor:
        return torch.stack(batch).sum()

    monkeypatch.setitem(default_collate_fn_map, torch.Tensor, summed)
    fetch = fetcher(DataLoader(TensorDataset(torch.arange(4)), batch_size=2, collate_fn=default_collate))
    assert fetch is not None
    assert fetch([1, 2]) == [torch.tensor(3)]


def test_rows_are_read_when_they_are_due() -> None:
    rows = torch.zeros(4)
    batches = make_feed(DataLoader(TensorDataset(rows), batch_size=2), "loader", "limit", 1.0, 0).training(
        0, 0
    )
    next(batches)
    rows.fill_(7.0)
    assert next(batches)[0][0].tolist() == [7.0, 7.0]


def test_without_batching_an_entry_is_collated_alone() -> None:
    loader = DataLoader(TensorDataset(torch.arange(4)), batch_size=None)
    fetch = fetcher(loader)
    assert fetch is not None
    assert fetch(2) == next(itertools.islice(loader, 2, None)) == [torch.tensor(2)]


@pytest.mark.parametrize("options", [{"num_workers": 1}, {"pin_memory": True}, {"timeout": 3.0}])
def test_what_only_torchs_loader_can_do_is_left_to_it(options: dict[str, Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert fetcher(DataLoader(TensorDataset(torch.arange(4)), batch_size=2, **options)) is None


def test_a_stop_out_of_the_dataset_ends_the_batches() -> None:
    def fetch(index: int) -> int:
        if index == 2:
            raise StopIteration
        return index

    assert list(fetched(iter(range(5)), fetch)) == [0, 1]
