"""How the samples that indices name become a batch, in this process, as a DataLoader would do it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils.data import DataLoader, MapDataPipe, Subset, TensorDataset, default_collate
from torch.utils.data._utils.collate import collate_tensor_fn, default_collate_fn_map


def fetcher(loader: DataLoader[Any]) -> Callable[[Any], Any] | None:
    """Return the function that makes a batch of its indices; None where only torch's loader can.

    That is with workers, with pinned memory, and where torch shares the dataset out or refuses the loader.
    """
    if loader.num_workers or loader.pin_memory or loader.timeout or isinstance(loader.dataset, MapDataPipe):
        return None
    dataset: Any = loader.dataset
    collate = loader.collate_fn
    if loader.batch_sampler is None:
        return lambda index: collate(dataset[index])

    def fetch(indices: Any) -> Any:
        if getattr(dataset, "__getitems__", None):
            return collate(dataset.__getitems__(indices))
        return collate([dataset[index] for index in indices])

    return _whole(dataset, fetch) if _is_default(collate) else fetch


def fetched(picks: Iterator[Any], fetch: Callable[[Any], Any]) -> Iterator[Any]:
    """Yield the batch of each entry; a StopIteration out of the dataset ends it, as in torch's loader."""
    for indices in picks:
        try:
            batch = fetch(indices)
        except StopIteration:
            return
        yield batch


def _is_default(collate: Any) -> bool:
    return collate is default_collate and default_collate_fn_map.get(torch.Tensor) is collate_tensor_fn


def _whole(dataset: Any, fetch: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return how rows of plain tensors are read: all of a batch at once, the same batch sample by sample."""
    subsets = []
    while type(dataset) is Subset:
        subsets.append(dataset)
        dataset = dataset.dataset
    if type(dataset) is not TensorDataset:
        return fetch

    def fetch_whole(indices: Any) -> Any:
        rows = indices
        try:
            for subset in subsets:
                known = subset.indices
                rows = [known[index] for index in rows]
            picked = torch.as_tensor(rows)
            if picked.dtype is torch.int64 and picked.dim() == 1 and all(map(_is_plain, dataset.tensors)):
                return [tensor.index_select(0, picked) for tensor in dataset.tensors]
        except (TypeError, ValueError, IndexError, RuntimeError):
            pass  # an unusual index: what it means, or what is wrong with it, is said by reading it alone
        return fetch(indices)

    return fetch_whole


def _is_plain(tensor: Any) -> bool:
    """Whether selected rows are, in values and layout, what stacking the same rows makes."""
    return (
        type(tensor) is torch.Tensor
        and tensor.device.type == "cpu"
        and tensor.layout is torch.strided
        and not tensor.requires_grad
        and not tensor.is_quantized
        and tensor.is_contiguous()
    )
