"""What strategies change: figures beside one process, and what a step takes of time and memory.

    scripts/bench strategies

First ten steps of each strategy on two ranks against one process on the same batches; then steps of a larger
model, with torch's ZeroRedundancyOptimizer beside them. Medians; the first steps are left out.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed.fsdp  # loaded before memory is looked at, with what the first optimizer loads anyway
from torch.distributed.optim import ZeroRedundancyOptimizer

import drivetrain as dt

STRATEGIES = ("ddp", "zero1", "fsdp", "fsdp(reshard_after_forward=false)")
OPTIMIZERS = {
    "AdamW": lambda parameters: torch.optim.AdamW(parameters, lr=1e-2),
    "SGD, momentum": lambda parameters: torch.optim.SGD(parameters, lr=0.05, momentum=0.9),
}


_MALLOC = "MALLOC_MMAP_THRESHOLD_"
"""With a threshold glibc gives large blocks back when they are let go; without one it keeps more and more."""


class Net(dt.Module):
    """A small regression in single precision."""

    def __init__(self, optimizer: str) -> None:
        super().__init__()
        self.optimizer = optimizer
        torch.manual_seed(0)
        self.net = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1))

    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:  # noqa: ANN401, ARG002 - the interface's
        """Return the mean squared error."""
        x, y = batch
        loss = (self.net(x) - y).square().mean()
        self.log("loss", loss)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return the one that is asked for."""
        return OPTIMIZERS[self.optimizer](self.parameters())


class Losses(dt.Callback):
    """Keeps each step's loss."""

    def __init__(self) -> None:
        self.seen: list[float] = []

    def on_train_batch_end(self, trainer: Any, *_: Any) -> None:  # noqa: ANN401 - the interface's
        """Keep the loss."""
        self.seen.append(float(trainer.callback_metrics["loss"]))


def trained(strategy: str, optimizer: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Train ten steps of 16 samples; return losses and parameters."""
    samples = torch.randn(160, 16, generator=torch.Generator().manual_seed(1))
    dataset = torch.utils.data.TensorDataset(samples, samples.sum(1, keepdim=True).sin())
    world_size = 1 if strategy == "single" else 2
    module, losses = Net(optimizer), Losses()
    dt.Trainer(
        accelerator="cpu",
        devices=world_size,
        strategy=strategy,
        launcher="none" if world_size == 1 else "fork",
        max_steps=10,
        log_every_n_steps=1,
        callbacks=[losses],
        enable_progress_bar=False,
        enable_model_summary=False,
        enable_checkpointing=False,
        logger=False,
    ).fit(module, torch.utils.data.DataLoader(dataset, 16 // world_size))
    return torch.tensor(losses.seen), torch.cat([one.detach().reshape(-1) for one in module.parameters()])


def compare() -> None:
    """Print how far each strategy is from one process."""
    print("| strategy | optimizer | largest difference of a loss | of a parameter | equal to ddp |")
    print("|---|---|---|---|---|")
    for optimizer in OPTIMIZERS:
        alone = trained("single", optimizer)
        ddp = trained("ddp", optimizer)
        for strategy in STRATEGIES:
            found = trained(strategy, optimizer)
            far = [float((one - other).abs().max()) for one, other in zip(found, alone, strict=True)]
            equal = all(map(torch.equal, found, ddp))
            row = f"`{strategy}` | {optimizer} | {far[0]:.1e} | {far[1]:.1e} | {'yes' if equal else 'no'}"
            print(f"| {row} |", flush=True)


def _memory(name: str) -> float:
    line = next(one for one in Path("/proc/self/status").read_text().splitlines() if one.startswith(name))
    return int(line.split()[1]) / 1024


def steps(engine: dt.Engine, kind: str, width: int, depth: int, count: int) -> list[tuple[int, float, float]]:
    """Take steps on this rank; return each rank's elements of state, milliseconds of a step, and peak."""
    torch.set_num_threads(1)
    Path("/proc/self/clear_refs").write_text("5")  # the peak is counted from now on
    before = _memory("VmRSS")
    layers = [torch.nn.Sequential(torch.nn.Linear(width, width), torch.nn.Tanh()) for _ in range(depth)]
    net = engine.setup(torch.nn.Sequential(*layers))
    if kind == "torch's ZeroRedundancyOptimizer":
        optimizer: Any = ZeroRedundancyOptimizer(net.parameters(), torch.optim.AdamW, lr=1e-3)
        inner = optimizer.optim
    else:
        optimizer = inner = engine.setup_optimizers(torch.optim.AdamW(net.parameters(), lr=1e-3))
    batch, times = torch.randn(8, width), []
    for _ in range(count + 3):
        optimizer.zero_grad()
        engine.backward(net(batch).square().mean())
        engine.barrier()
        start = time.perf_counter()
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - start))
    values = [value for state in inner.state.values() for value in state.values()]
    elements = sum((one.to_local() if hasattr(one, "to_local") else one).numel() for one in values)
    mine = (elements, statistics.median(times[3:]), _memory("VmHWM") - before)
    return engine.strategy.collectives.all_gather_object(mine)


def cost(width: int, depth: int, count: int) -> None:
    """Print what a step takes."""
    print(f"\n{depth} layers of {width} x {width}, AdamW; of each of two ranks:\n")
    print("| steps by | state, elements | `optimizer.step()`, ms | peak memory of the run, MiB |")
    print("|---|---|---|---|")
    for kind in ("ddp", "zero1", "fsdp", "torch's ZeroRedundancyOptimizer"):
        strategy = kind if kind in STRATEGIES else "ddp"
        engine = dt.Engine(accelerator="cpu", devices=2, strategy=strategy, launcher="subprocess")
        found = engine.launch(steps, kind, width, depth, count)
        columns = [[format(one[at], form) for one in found] for at, form in enumerate((",", ".1f", ".0f"))]
        print(f"| {kind} | {' | '.join(', '.join(column) for column in columns)} |", flush=True)


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=30)
    count = parser.parse_args().steps
    if _MALLOC not in os.environ:  # read by the C library when a process starts
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, _MALLOC: "1000000"})  # noqa: S606 - itself
    compare()
    for width, depth in ((64, 20), (1024, 16)):
        cost(width, depth, count)


if __name__ == "__main__":
    main()
