"""Whether a run that is cut off and resumed is the run that was not: tried, not promised."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import torch

from drivetrain.base.errors import TrainerError
from drivetrain.base.text import show
from drivetrain.base.tree import leaves
from drivetrain.callbacks.callback import Checkpoint
from drivetrain.data.seeds import mix, seeded
from drivetrain.loops.settings import Bounds
from drivetrain.trainer.twin import twin_of


@dataclass(frozen=True)
class ResumeReport:
    """What `Trainer.verify_resume` found."""

    steps: int
    """Optimizer steps of each run."""
    cut_at: int
    """Step after which the second run was cut off."""
    difference: str = ""
    """The first thing that was not the same; empty where everything was, bit by bit."""

    @property
    def is_exact(self) -> bool:
        """Whether the resumed run was the uninterrupted one."""
        return not self.difference

    def __str__(self) -> str:
        """Say it in a line."""
        tried = f"{self.steps} steps, cut off after {self.cut_at} and resumed"
        return f"{tried}: {self.difference or 'equal bit by bit'}"


@final
class _Witness(Checkpoint):
    """Writes down every batch of rank 0, and saves, and maybe ends the run, after a step."""

    def __init__(self, cut_at: int, path: Path, *, ends: bool) -> None:
        self.cut_at, self.path, self.ends = cut_at, path, ends
        self.batches: list[int] = []

    def on_train_batch_start(self, _trainer: Any, _module: Any, batch: Any, *_: Any) -> None:
        """Note what the batch holds."""
        self.batches.append(_fingerprint(batch))

    def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
        """Save once."""
        if trainer.global_step == self.cut_at and not self.path.exists():
            trainer.save_checkpoint(self.path)
            trainer.should_stop = self.ends


def verify(trainer: Any, data: Mapping[str, Any], model: Any, steps: int) -> ResumeReport:
    """Run ``steps`` steps, run them again and cut off halfway, resume from there, and compare.

    Every run has copies of the model, the callbacks and the samplers, as in a process of its own; datasets
    are shared. Nothing of the caller's is changed, random states included.

    Raises:
        TrainerError [trainer.bad-argument]: fewer than two steps.
    """
    if type(steps) is not int or steps < 2:  # noqa: PLR2004 - one before the cut, one after it
        raise TrainerError(
            "trainer.bad-argument",
            f"verify_resume(steps={steps!r})",
            values={"steps": steps},
            because="the run is cut off in its middle, so it has at least two steps",
            hint="pass steps=20",
        )
    cut_at = steps // 2
    with tempfile.TemporaryDirectory(prefix="drivetrain-verify-") as name:
        folder = Path(name)

        def run(label: str, seed: int, *, ends: bool = False, resume: bool = False) -> list[int]:
            here = folder / label
            witness = _Witness(cut_at, here / "cut.ckpt", ends=ends)
            bounds = Bounds(max_steps=steps)
            twin, given, copied = twin_of(trainer, witness, data, model, bounds, here, saves=True)
            with seeded(seed):
                twin.fit(copied, **given, ckpt_path=folder / "cut" / "cut.ckpt" if resume else None)
            twin.save_checkpoint(here / "end.ckpt")
            return witness.batches

        def read(label: str, moment: str) -> dict[str, Any]:
            return dict(torch.load(folder / label / f"{moment}.ckpt", weights_only=True))

        whole, cut = run("whole", 1), run("cut", 1, ends=True)
        found = _compared(whole[: len(cut)], cut, read("whole", "cut"), read("cut", "cut"), 0)
        if found:
            again = f"the same run twice, not resumed yet, is not the same: {found}"
            return ResumeReport(steps, cut_at, again)
        first = _seen(read("cut", "cut"))
        resumed = run("resumed", 2, resume=True)
        found = _compared(whole[first:], resumed, read("whole", "end"), read("resumed", "end"), first)
    return ResumeReport(steps, cut_at, found)


def _seen(checkpoint: Mapping[str, Any]) -> int:
    return int(checkpoint["loops"]["fit"]["progress"]["seen"])


def _fingerprint(batch: Any) -> int:
    parts: list[int] = []
    for _, leaf in leaves(batch):
        if isinstance(leaf, torch.Tensor):
            data = leaf.detach().cpu().contiguous().flatten().view(torch.uint8) if leaf.numel() else leaf
            parts.append(mix(*bytes(data.numpy()[:4096]), leaf.numel()))
        else:
            parts.append(mix(*repr(leaf).encode()[:4096]))
    return mix(*parts)


def _compared(whole: list[int], other: list[int], one: Any, two: Any, first: int) -> str:
    """Return the first difference in words: a batch, then an entry of the checkpoint."""
    for number, (mine, theirs) in enumerate(zip(whole, other, strict=False), start=first):
        if mine != theirs:
            return f"batch {number} is another one"
    if len(whole) != len(other):
        return f"it read {len(other)} batches and not {len(whole)}"
    kept, found = dict(leaves(one)), dict(leaves(two))
    for name in [*kept, *(name for name in found if name not in kept)]:
        if name not in kept or name not in found:
            return f"{name} is in one of the checkpoints only"
        if not _is_same(kept[name], found[name]):
            distance = _distance(kept[name], found[name])
            return f"{name} is {show(found[name])} and not {show(kept[name])}{distance}"
    return ""


def _is_same(one: Any, other: Any) -> bool:
    if not isinstance(one, torch.Tensor) or not isinstance(other, torch.Tensor):
        return type(one) is type(other) and (one == other or (one != one and other != other))  # noqa: PLR0124 - nan
    if one.shape != other.shape or one.dtype is not other.dtype:
        return False
    both_nan = one.isnan() & other.isnan() if one.is_floating_point() else torch.zeros(())
    return bool(((one == other) | both_nan.bool()).all())


def _distance(one: Any, other: Any) -> str:
    if not isinstance(one, torch.Tensor) or not isinstance(other, torch.Tensor) or one.shape != other.shape:
        return ""
    return f" (largest difference {float((one.double() - other.double()).abs().max()):.3g})"
