"""Tasks: a model, its data and its optimizer, and a clock that starts and stops within the steps."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset, TensorDataset

BATCH = 32
VOCABULARY, CONTEXT, WIDTH = 256, 64, 128


class Rows(Dataset[Any]):
    """A dataset as people write it: one sample at a time."""

    def __init__(self, *tensors: torch.Tensor) -> None:
        self.tensors = tensors

    def __len__(self) -> int:
        """Return the number of samples."""
        return len(self.tensors[0])

    def __getitem__(self, index: int) -> tuple[torch.Tensor, ...]:
        """Return one sample."""
        return tuple(tensor[index] for tensor in self.tensors)


class Net(nn.Module):
    """A multi-layer perceptron on 32 inputs."""

    def __init__(self, depth: int, width: int) -> None:
        super().__init__()
        sizes = [32, *[width] * depth]
        layers = [part for one, two in itertools.pairwise(sizes) for part in (nn.Linear(one, two), nn.ReLU())]
        self.layers = nn.Sequential(*layers, nn.Linear(width, 1))

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """Return the mean squared error."""
        return functional.mse_loss(self.layers(x), y)


class Transformer(nn.Module):
    """A causal language model of four layers."""

    def __init__(self) -> None:
        super().__init__()
        self.token, self.place = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        layer = nn.TransformerEncoderLayer(
            WIDTH, 4, 4 * WIDTH, 0.0, "gelu", batch_first=True, norm_first=True
        )
        self.blocks = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, VOCABULARY)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(CONTEXT))

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """Return the mean cross-entropy."""
        hidden = self.blocks(self.token(x) + self.place.weight, mask=self.mask, is_causal=True)
        return functional.cross_entropy(self.head(hidden).flatten(0, 1), y.flatten())


@dataclass
class Clock:
    """Processor seconds from the start of one step to the start of a later one, of the whole process.

    Set-up and tear-down lie outside; everything that is done between the steps lies within.
    """

    first: int
    last: int
    count: int = 0
    began: float = 0.0
    seconds: float = field(default=0.0)

    def tick(self) -> None:
        """Count a step that begins."""
        self.count += 1
        if self.count == self.first:
            self.began = time.process_time()
        elif self.count == self.last:
            self.seconds = time.process_time() - self.began

    @property
    def per_step(self) -> float:
        """Seconds of a step."""
        return self.seconds / (self.last - self.first)


@dataclass(frozen=True)
class Task:
    """One row of the table."""

    name: str
    model: Callable[[], nn.Module]
    optimizer: Callable[[Any], torch.optim.Optimizer]
    data: Callable[[int], Dataset[Any]]
    steps: int
    batch: int = BATCH

    def clock(self) -> Clock:
        """Return a clock that leaves out the first steps."""
        return Clock(self.steps // 10 + 1, self.steps)

    def loader(self) -> DataLoader[Any]:
        """Return the loader of one epoch, which is the whole run."""
        torch.manual_seed(0)
        return DataLoader(self.data(self.steps * self.batch), self.batch, shuffle=True)


def _numbers(kind: Callable[..., Dataset[Any]]) -> Callable[[int], Dataset[Any]]:
    def make(count: int) -> Dataset[Any]:
        x = torch.randn(count, 32)
        return kind(x, x.sum(1, keepdim=True))

    return make


def _text(count: int) -> Dataset[Any]:
    tokens = torch.randint(0, VOCABULARY, (count, CONTEXT + 1))
    return TensorDataset(tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous())


def _sgd(parameters: Any) -> torch.optim.Optimizer:  # noqa: ANN401 - what optimizers take
    return torch.optim.SGD(parameters, lr=0.01)


def _adamw(parameters: Any) -> torch.optim.Optimizer:  # noqa: ANN401 - what optimizers take
    return torch.optim.AdamW(parameters, lr=3e-4)


TASKS = (
    Task("MLP 2x64, tensor dataset", lambda: Net(2, 64), _sgd, _numbers(TensorDataset), 600),
    Task("MLP 2x64, own dataset", lambda: Net(2, 64), _sgd, _numbers(Rows), 600),
    Task("MLP 12x256, tensor dataset", lambda: Net(12, 256), _adamw, _numbers(TensorDataset), 150),
    Task("transformer, 4 layers of 128", Transformer, _adamw, _text, 16, 8),
)
