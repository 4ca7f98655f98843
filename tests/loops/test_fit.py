from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset

import drivetrain as dt
from drivetrain.events import HOOKS
from tests.loops.models import Noisy, Regression, differing, loader, quiet


class Recorder(dt.Callback):
    """Writes every hook down."""

    def __init__(self, label: str, into: list[str], *, is_last: bool = False) -> None:
        self.is_last = is_last
        for name in HOOKS:
            vars(self)[name] = lambda *_, name=name, **__: into.append(f"{label} {name}")


def test_hooks_come_in_the_documented_order(tmp_path: Path) -> None:
    calls: list[str] = []
    trainer = quiet(
        max_epochs=1, limit_train_batches=1, limit_val_batches=1, callbacks=[Recorder("c", calls)]
    )
    module = Regression()
    for name, hook in HOOKS.items():
        if hook.on_module:
            vars(module)[name] = lambda *_, name=name: calls.append(f"m {name}")

    trainer.fit(module, loader(), loader())
    trainer.save_checkpoint(tmp_path / "a.ckpt")

    names = [call[2:] for call in calls if call.startswith("c ")]
    assert names == [
        "setup",
        "on_fit_start",
        "on_train_start",
        "on_train_epoch_start",
        "on_train_batch_start",
        "on_before_zero_grad",
        "on_before_backward",
        "on_after_backward",
        "on_before_optimizer_step",
        "on_train_batch_end",
        "on_validation_start",
        "on_validation_epoch_start",
        "on_validation_batch_start",
        "on_validation_batch_end",
        "on_validation_epoch_end",
        "on_validation_end",
        "on_train_epoch_end",
        "on_train_end",
        "on_fit_end",
        "teardown",
        "on_save_checkpoint",
    ]
    assert calls == [f"{label} {name}" for name in names for label in ("c", "m")]


def test_steps_and_epochs_bound_a_fit() -> None:
    assert quiet(max_epochs=3).fit(Regression(), loader()).epochs == 3
    result = quiet(max_steps=13).fit(Regression(), loader())
    assert (result.steps, result.epochs, result.samples) == (13, 1, 39 + 12)
    assert quiet(max_epochs=0).fit(Regression(), loader()).steps == 0
    assert quiet(max_epochs=2, limit_train_batches=0.2).fit(Regression(), loader()).steps == 4
    assert quiet(max_epochs=2, limit_train_batches=0).fit(Regression(), loader()).steps == 0


class Stops(dt.Callback):
    def __init__(self, at: int) -> None:
        self.at = at

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        if trainer.global_step == self.at:
            trainer.should_stop = True


def test_should_stop_ends_after_the_step_unless_a_bound_forbids() -> None:
    result = quiet(max_epochs=5, callbacks=[Stops(3)]).fit(Regression(), loader())
    assert (result.steps, result.stopped_early) == (3, True)
    result = quiet(max_epochs=5, min_epochs=2, callbacks=[Stops(3)]).fit(Regression(), loader())
    assert (result.steps, result.epochs) == (20, 2)


class SkipsRest(Regression):
    def on_train_batch_start(self, batch, batch_idx):
        return -1 if batch_idx == 4 else None


class LeavesOut(Regression):
    def training_step(self, batch, batch_idx):
        return None if batch_idx % 2 else super().training_step(batch, batch_idx)


def test_a_hook_ends_the_epoch_and_none_leaves_a_step_out() -> None:
    assert quiet(max_epochs=2).fit(SkipsRest(), loader()).steps == 8
    assert quiet(max_epochs=2).fit(LeavesOut(), loader()).steps == 10


class Modes(Regression):
    def __init__(self) -> None:
        super().__init__(dropout=0.5)
        self.net[0].eval()
        self.seen: list[tuple[bool, bool, bool]] = []

    def note(self) -> None:
        self.seen.append((self.training, self.net[0].training, torch.is_grad_enabled()))

    def training_step(self, batch, batch_idx):
        self.note()
        return super().training_step(batch, batch_idx)

    def validation_step(self, batch, batch_idx):
        self.note()


def test_validation_runs_in_eval_mode_and_leaves_no_trace() -> None:
    module = Modes()
    quiet(max_epochs=2, limit_train_batches=1, limit_val_batches=1).fit(module, loader(), loader())
    assert module.seen == [(True, False, True), (False, False, False)] * 2


def test_validation_comes_every_n_epochs() -> None:
    module = Modes()
    quiet(max_epochs=5, limit_train_batches=1, limit_val_batches=1, check_val_every_n_epoch=2).fit(
        module, loader(), loader()
    )
    assert [mode for mode, _, _ in module.seen] == [True, True, False, True, True, False, True]


def test_a_fit_starts_anew_and_the_weights_stay() -> None:
    trainer, module = quiet(max_epochs=1), Regression()
    trainer.fit(module, loader())
    after = module.net[0].weight.clone()
    assert not module.net[0].weight.equal(Regression().net[0].weight)
    assert trainer.fit(module, loader()).steps == 10
    assert not module.net[0].weight.equal(after)


class Shuffled(IterableDataset):
    """Orders itself by python's global generator when it starts, and says how long it is by ending."""

    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        order = list(range(22))
        random.shuffle(order)
        for index in order:
            x = torch.full((4,), index / 22)
            yield x, x.sum()[None]


class SavesAt(dt.Callback):
    is_last = True

    def __init__(self, step: int, path: Path) -> None:
        self.step, self.path = step, path

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        if trainer.global_step == self.step:
            trainer.save_checkpoint(self.path)


SOURCES = {
    "shuffled": lambda: DataLoader(Noisy(), 4, shuffle=True),
    "iterable": lambda: DataLoader(Shuffled(), 4),
    "list": lambda: [(torch.full((n, 4), n / 7), torch.ones(n, 1)) for n in (3, 1, 4, 1, 5, 2)],
}


@pytest.mark.parametrize("step", [1, 3, 6, 11, 12])
@pytest.mark.parametrize("kind", SOURCES)
def test_a_resumed_run_equals_the_uninterrupted_one(tmp_path: Path, kind: str, step: int) -> None:
    middle = tmp_path / "middle.ckpt"

    def run(path: Path | None, *callbacks: dt.Callback) -> dict[str, Any]:
        torch.manual_seed(0 if path is None else 9)
        random.seed(0 if path is None else 9)
        trainer, module = quiet(max_epochs=3, callbacks=list(callbacks)), Regression(dropout=0.5)
        source = SOURCES[kind]()
        torch.manual_seed(0 if path is None else 9)
        trainer.fit(module, source, ckpt_path=path)
        trainer.save_checkpoint(tmp_path / "end.ckpt")
        return torch.load(tmp_path / "end.ckpt", weights_only=True)

    whole = run(None, SavesAt(step, middle))
    assert not differing(whole, run(middle))


def test_a_run_that_max_steps_ended_midway_goes_on_midway(tmp_path: Path) -> None:
    whole, parts = Regression(dropout=0.5), Regression(dropout=0.5)
    torch.manual_seed(4)
    expected = quiet(max_epochs=2).fit(whole, loader(shuffle=True))
    torch.manual_seed(4)
    first = quiet(max_steps=7)
    first.fit(parts, loader(shuffle=True))
    first.save_checkpoint(tmp_path / "a.ckpt")
    result = quiet(max_epochs=2).fit(parts, loader(shuffle=True), ckpt_path=tmp_path / "a.ckpt")
    assert result.metrics == expected.metrics
    assert result.steps_here == 13
    for one, other in zip(whole.parameters(), parts.parameters(), strict=True):
        assert torch.equal(one, other)


def test_what_cannot_be_gone_on_from_is_a_clear_error(tmp_path: Path) -> None:
    trainer, module, path = quiet(max_epochs=1), Regression(), tmp_path / "a.ckpt"
    trainer.fit(module, loader())
    trainer.save_checkpoint(path, weights_only=True)
    with pytest.raises(dt.CheckpointError, match=r"checkpoint.no-training-state"):
        trainer.fit(module, loader(), ckpt_path=path)
    trainer.save_checkpoint(path)

    class Scheduled(Regression):
        def configure_optimizers(self):
            optimizer = super().configure_optimizers()
            return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1)]

    with pytest.raises(dt.CheckpointError, match=r"checkpoint.mismatch\] .* 0 lr_schedulers"):
        trainer.fit(Scheduled(), loader(), ckpt_path=path)
    with pytest.raises(dt.CheckpointError, match=r"checkpoint.missing"):
        trainer.fit(module, loader(), ckpt_path=tmp_path / "b.ckpt")


def test_an_interrupt_is_raised_again_and_leaves_a_usable_state(tmp_path: Path) -> None:
    class Interrupts(dt.Callback):
        def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
            if trainer.global_step == 3:
                raise KeyboardInterrupt

    trainer, module = quiet(max_epochs=1, callbacks=[Interrupts()]), Regression()
    with pytest.raises(KeyboardInterrupt):
        trainer.fit(module, loader())
    assert trainer.interrupted
    assert trainer.global_step == 3
    trainer.save_checkpoint(tmp_path / "a.ckpt")
    assert quiet(max_epochs=1).fit(module, loader(), ckpt_path=tmp_path / "a.ckpt").steps_here == 7


def test_a_module_without_a_step_or_data_is_a_clear_error() -> None:
    with pytest.raises(dt.ModuleError, match=r"module.no-step\] Module has no training_step"):
        quiet(max_epochs=1).fit(dt.Module(), loader())
    with pytest.raises(dt.DataError, match=r"data.several-loaders"):
        quiet(max_epochs=1).fit(Regression(), [loader(), loader()])
    with pytest.raises(dt.DataError, match=r"data.empty"):
        quiet(max_epochs=1).fit(Regression(), Empty())


class Empty:
    def __iter__(self) -> Iterator[Any]:
        return iter(())


def test_bf16_mixed_trains_with_float32_parameters() -> None:
    module = Regression()
    result = quiet(max_epochs=1, precision="bf16-mixed").fit(module, loader())
    assert module.dtype is torch.float32
    assert 0 < result.metrics["loss_epoch"] < 10
