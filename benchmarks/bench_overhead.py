"""The fit loop against a loop written by hand: same model, same data, one run, rounds interleaved.

``./scripts/bench overhead`` prints the processor time of a step of each, which other load on the machine
disturbs less than the clock, and their ratio.
"""

from __future__ import annotations

import statistics
import sys
import time
from typing import Any

import torch
from torch.utils.data import DataLoader, TensorDataset

import drivetrain as dt

_STEPS = 400
_ROUNDS = 9


class Net(dt.Module):
    """The smallest model that people train: two layers of 64."""

    def __init__(self, *, logs: bool = False) -> None:
        super().__init__()
        self.logs = logs
        self.net = torch.nn.Sequential(
            torch.nn.Linear(32, 64),
            torch.nn.ReLU(),
            torch.nn.Linear(64, 64),
            torch.nn.ReLU(),
            torch.nn.Linear(64, 1),
        )

    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:  # noqa: ANN401, ARG002 - the interface's
        """Return the mean squared error."""
        x, y = batch
        loss = torch.nn.functional.mse_loss(self.net(x), y)
        if self.logs:
            self.log("loss", loss, prog_bar=True)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return plain SGD: the cheapest step there is, which is the hardest for a loop's overhead."""
        return torch.optim.SGD(self.parameters(), lr=0.01)


def _loader() -> DataLoader[Any]:
    x = torch.randn(_STEPS * 32, 32)
    return DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), 32, shuffle=True)


def by_hand(loader: DataLoader[Any]) -> float:
    """Return the processor seconds of one epoch of a plain loop."""
    module = Net()
    optimizer = module.configure_optimizers()
    started = time.process_time()
    for x, y in loader:
        loss = torch.nn.functional.mse_loss(module.net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return time.process_time() - started


def by_trainer(loader: DataLoader[Any], *, logs: bool, bar: bool) -> float:
    """Return the processor seconds of one epoch of fit, set-up and tear-down included."""
    trainer = dt.Trainer(accelerator="cpu", devices=1, max_epochs=1, enable_progress_bar=bar)
    module = Net(logs=logs)
    started = time.process_time()
    trainer.fit(module, loader)
    return time.process_time() - started


def main() -> int:
    """Print the table."""
    torch.set_num_threads(1)
    loader = _loader()
    kinds = {
        "by hand": lambda: by_hand(loader),
        "drivetrain, bare": lambda: by_trainer(loader, logs=False, bar=False),
        "drivetrain, logged": lambda: by_trainer(loader, logs=True, bar=False),
        "drivetrain, default": lambda: by_trainer(loader, logs=True, bar=True),
    }
    times: dict[str, list[float]] = {name: [] for name in kinds}
    for number in range(_ROUNDS + 1):
        for name, take in kinds.items():
            seconds = take()
            if number:  # the first round warms up
                times[name].append(seconds)
    print(f"{_STEPS} steps of a 3-layer MLP of 64, batch 32, one thread; {_ROUNDS} rounds, interleaved")
    for name, found in times.items():
        ratio = statistics.median(mine / base for mine, base in zip(found, times["by hand"], strict=True))
        print(f"{name:<20} {statistics.median(found) / _STEPS * 1e6:7.0f} us/step   {ratio:.2f} x by hand")
    return 0


if __name__ == "__main__":
    sys.exit(main())
