"""Write docs/hooks.md: every hook, when it is called and with what, and a run in which they are recorded.

With --check nothing is written, and the exit status is 1 where the file on disk differs.
"""

from __future__ import annotations

import itertools
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader
from written import ROOT, write_or_check

import drivetrain as dt
from drivetrain.events import HOOKS, OVERRIDES
from drivetrain.events.table import GONE

PAGE = ROOT / "docs" / "hooks.md"
REPLACED = (
    "optimizer_step",
    "optimizer_zero_grad",
    "backward",
    "configure_gradient_clipping",
    "lr_scheduler_step",
)

INTRODUCTION = """
# Hooks

A hook is a method that a run calls at one moment. Callbacks get `(trainer, module, ...)`, a module gets
the rest. At each moment come the callbacks, in their order, then the module, then the callbacks that save
(`is_last`); where a checkpoint is loaded the module comes first, and its weights are there for the
callbacks. What nobody overrides is never called, and costs nothing. On several ranks every rank calls
every hook, but for those around a batch of an evaluation: they are called on the rank that has the batch.

A method that looks like a hook and is none, or takes other arguments than it would get, is an error
before the run starts.
"""


class Recorded(dt.Module):
    """Two optimizers, one of them with a scheduler; every part of the step is replaced by itself."""

    def __init__(self, calls: list[str]) -> None:
        super().__init__()
        self.calls = calls
        self.one, self.two = torch.nn.Linear(2, 2), torch.nn.Linear(2, 1)
        for name in REPLACED:
            vars(self)[name] = self._noted(name)

    def _noted(self, name: str) -> Any:  # noqa: ANN401 - a method of the base
        base = getattr(super(), name)

        def noted(*arguments: Any) -> Any:  # noqa: ANN401 - as the base
            self.calls.append(f"{name} (module)")
            return base(*arguments)

        return noted

    def training_step(self, batch: torch.Tensor, batch_idx: int) -> torch.Tensor:  # noqa: ARG002 - the interface's
        """Return a loss."""
        self.calls.append("training_step (module)")
        return self.two(self.one(batch)).square().mean()

    def validation_step(self, batch: torch.Tensor, batch_idx: int, dataloader_idx: int = 0) -> None:  # noqa: ARG002 - a hook's arguments
        """Evaluate nothing."""
        self.calls.append("validation_step (module)")

    def test_step(self, batch: torch.Tensor, batch_idx: int) -> None:  # noqa: ARG002 - the interface's
        """Evaluate nothing."""
        self.calls.append("test_step (module)")

    def predict_step(self, batch: torch.Tensor, batch_idx: int, dataloader_idx: int = 0) -> torch.Tensor:  # noqa: ARG002 - as above
        """Return the batch."""
        self.calls.append("predict_step (module)")
        return batch

    def configure_optimizers(self) -> Any:  # noqa: ANN401 - the interface's
        """Return both optimizers."""
        self.calls.append("configure_optimizers (module)")
        first, second = (torch.optim.SGD(part.parameters(), lr=0.1) for part in (self.one, self.two))
        return [first, second], [torch.optim.lr_scheduler.StepLR(first, 1)]


def recorder(calls: list[str]) -> dt.Callback:
    """Return a callback that writes every hook down."""
    made = dt.Callback()
    for name in HOOKS:
        vars(made)[name] = lambda *_, name=name: calls.append(name)
    return made


def record(devices: int = 1) -> list[str]:
    """Run fit, validate, test and predict on a few batches, and return what was called on rank 0."""
    calls: list[str] = []
    trainer = dt.Trainer(
        accelerator="cpu",
        devices=devices,
        launcher="none" if devices == 1 else "fork",
        strategy="ddp",
        max_epochs=1,
        num_sanity_val_steps=1,
        accumulate_grad_batches=2,
        gradient_clip_val=1.0,
        enable_progress_bar=False,
        callbacks=[recorder(calls)],
    )
    module = Recorded(calls)
    data = DataLoader(torch.ones(3 * devices, 2), 1)  # three batches a rank: a window of two, and one of one
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.ckpt"
        for ckpt_path in (None, path):
            calls.append("# trainer.fit" + (", resumed from the end: nothing is left" if ckpt_path else ""))
            trainer.fit(module, data, [one_batch(devices), one_batch(devices)], ckpt_path=ckpt_path)
            if not ckpt_path:
                calls.append("# trainer.save_checkpoint")
                trainer.save_checkpoint(path)
    for verb in ("validate", "test", "predict"):
        calls.append(f"# trainer.{verb}")
        getattr(trainer, verb)(module, one_batch(devices))
    return calls


def one_batch(devices: int) -> DataLoader[Any]:
    """Return a loader with one batch for each rank."""
    return DataLoader(torch.ones(devices, 2), 1)


def shown(calls: list[str]) -> Iterator[str]:
    """Yield the calls in lines; one that repeats stands once, with how often it came."""
    for call, group in itertools.groupby(calls):
        count = len(list(group))
        yield call + (f"  x {count}" if count > 1 else "")


def table(rows: dict[str, Any]) -> Iterator[str]:
    """Yield a table of hooks."""
    yield "| hook | when | gets | on |"
    yield "|---|---|---|---|"
    for hook in rows.values():
        gets = ", ".join(f"`{argument}`" for argument in hook.arguments)
        where = "module, callback" if hook.on_module and hook.on_callback else "callback"
        yield f"| `{hook.name}` | {hook.when} | {gets} | {where} |"


def page() -> str:
    """Return the page."""
    lines = [INTRODUCTION.strip(), "", "## In the order of a run", "", *table(HOOKS)]
    lines += [
        "",
        "## What a module may replace",
        "",
        "The run does it itself, unless the module overrides it.",
        "",
    ]
    lines += ["| method | what it is for | gets |", "|---|---|---|"]
    for hook in OVERRIDES.values():
        gets = ", ".join(f"`{argument}`" for argument in hook.arguments)
        lines.append(f"| `{hook.name}` | {hook.when} | {gets} |")
    lines += [
        "",
        "## Methods of earlier libraries",
        "",
        "They are errors here; this is what does their work.",
        "",
    ]
    lines += ["| method | now |", "|---|---|"]
    lines += [
        f"| `{name}` | {' or '.join(f'`{one}`' for one in now.split(' or '))} |" for name, now in GONE.items()
    ]
    lines += [
        "",
        "## A run, recorded",
        "",
        "Three batches with `accumulate_grad_batches=2`, two optimizers, two validation loaders;",
        "lines that end in `(module)` are the module's own steps and what it replaces; the others are hooks.",
        "",
        "```text",
        *shown(record()),
        "```",
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(write_or_check({PAGE: page()}, (__doc__ or "").partition("\n")[0]))
