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
        max_epochs=1,
        limit_train_batches=1,
        limit_val_batches=1,
        num_sanity_val_steps=1,
        callbacks=[Recorder("c", calls)],
    )
    module = Regression()
    for name, hook in HOOKS.items():
        if hook.on_module:
            vars(module)[name] = lambda *_, name=name: calls.append(f"m {name}")

    trainer.fit(module, loader(), loader())
    trainer.save_checkpoint(tmp_path / "a.ckpt")

    names = [call[2:] for call in calls if call.startswith("c ")]
    validation = [
        "on_validation_start",
        "on_validation_epoch_start",
        "on_validation_batch_start",
        "on_validation_batch_end",
        "on_validation_epoch_end",
        "on_validation_end",
    ]
    assert names == [
        "setup",
        "on_fit_start",
        "on_sanity_check_start",
        *validation,
        "on_sanity_check_end",
        "on_train_start",
        "on_train_epoch_start",
        "on_train_batch_start",
        "on_before_zero_grad",
        "on_before_backward",
        "on_after_backward",
        "on_before_optimizer_step",
        "on_train_batch_end",
        *validation,
        "on_train_epoch_end",
        "on_train_end",
        "on_fit_end",
        "teardown",
        "on_save_checkpoint",
    ]
    both = [f"{label} {name}" for name in names for label in ("c", "m")]
    assert calls == [
        call
        for call in both
        if call[2:] not in ("on_sanity_check_start", "on_sanity_check_end") or call[0] == "c"
    ]


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
    trainer.save_checkpoint(path)
    trainer.save_checkpoint(tmp_path / "weights.ckpt", weights_only=True)
    with pytest.raises(dt.CheckpointError, match=r"checkpoint.no-training-state"):
        trainer.fit(module, loader(), ckpt_path=tmp_path / "weights.ckpt")

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


class Evaluated(Regression):
    """Notes where validations and steps come."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Any] = []

    def training_step(self, batch, batch_idx):
        self.seen.append(batch_idx)
        return super().training_step(batch, batch_idx)

    def validation_step(self, batch, batch_idx):
        self.seen.append("v")
        self.seen_grad = torch.is_grad_enabled(), torch.is_inference_mode_enabled()
        self.log("val", self.loss(batch))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"val_check_interval": 2}, [0, 1, "v", 2, 3, "v", 4, 0, 1, "v", 2, 3, "v", 4]),
        ({"val_check_interval": 0.2}, [0, "v", 1, "v", 2, "v", 3, "v", 4, "v"] * 2),
        ({"val_check_interval": 5}, [0, 1, 2, 3, 4, "v"] * 2),
        (
            {"val_check_interval": 4, "check_val_every_n_epoch": None},
            [0, 1, 2, 3, "v", 4, 0, 1, 2, "v", 3, 4],
        ),
        ({"val_check_interval": 2, "check_val_every_n_epoch": 2}, [0, 1, 2, 3, 4, 0, 1, "v", 2, 3, "v", 4]),
        ({}, [0, 1, 2, 3, 4, "v"] * 2),
        ({"val_check_interval": "3 steps"}, [0, 1, 2, "v", 3, 4, 0, "v", 1, 2, 3, "v", 4]),
        ({"val_check_interval": "7 steps"}, [0, 1, 2, 3, 4, 0, 1, "v", 2, 3, 4]),
        ({"val_check_interval": "12 samples"}, [0, 1, 2, "v", 3, 4, 0, "v", 1, 2, 3, "v", 4]),
        ({"val_check_interval": "0.4 epochs"}, [0, 1, "v", 2, 3, "v", 4] * 2),
        ({"val_check_interval": "2 epochs"}, [0, 1, 2, 3, 4, 0, 1, 2, 3, 4, "v"]),
        ({"val_check_interval": "1 h"}, [0, 1, 2, 3, 4] * 2),
        ({"val_check_interval": "1e-9 s", "log_every_n_steps": "5 steps"}, [0, 1, 2, 3, 4, "v"] * 2),
    ],
)
def test_validations_come_when_they_are_asked_for(given: dict, expected: list) -> None:
    module = Evaluated()
    quiet(max_epochs=2, **given).fit(module, loader(20), loader(4))
    assert module.seen == expected


@pytest.mark.parametrize(
    ("given", "steps"),
    [
        ({"max_epochs": "3 epochs"}, 15),
        ({"max_epochs": "1.5 epochs"}, 8),
        ({"max_epochs": "0.2 epochs"}, 1),
        ({"max_steps": "7 steps"}, 7),
        ({"max_steps": "21 samples"}, 6),
        ({"max_steps": "40 samples"}, 10),
        ({"max_time": {"days": 1}, "max_epochs": 1}, 5),
    ],
)
def test_a_fit_is_bounded_in_any_unit(given: dict, steps: int) -> None:
    assert quiet(**given).fit(Regression(), loader(20)).steps == steps


def test_an_interval_that_never_comes_is_an_error() -> None:
    for interval, data in ((6, loader(20)), (0.5, DataLoader(Shuffled(), 2))):
        with pytest.raises(dt.DataError, match=r"data.val-interval"):
            quiet(max_epochs=1, val_check_interval=interval).fit(Evaluated(), data, loader(4))


def test_a_sanity_check_comes_first_and_leaves_no_trace() -> None:
    plain, checked = Evaluated(), Evaluated()
    torch.manual_seed(0)
    expected = torch.rand(1)
    for module, steps in ((plain, 0), (checked, 2)):
        torch.manual_seed(0)
        phases: list[bool] = []

        class Phases(dt.Callback):
            def on_validation_start(self, trainer, module, phases=phases):
                phases.append(trainer.sanity_checking)

        trainer = quiet(max_epochs=1, num_sanity_val_steps=steps, callbacks=Phases())
        result = trainer.fit(module, loader(8), loader(20))
        assert torch.rand(1) == expected
        assert set(result.metrics) == {"loss_step", "loss_epoch", "loss", "val"}
        assert phases == ([True, False] if steps else [False])
    assert checked.seen == ["v", "v", *plain.seen]
    module = Evaluated()
    quiet(max_epochs=0, num_sanity_val_steps=-1).fit(module, loader(8), loader(20))
    assert module.seen == ["v"] * 5


def test_a_fast_run_takes_a_few_batches_of_everything() -> None:
    for wanted, count in ((True, 1), (3, 3)):
        module = Evaluated()
        result = quiet(fast_dev_run=wanted, max_epochs=9).fit(module, loader(), loader())
        assert module.seen == [*range(count), *["v"] * count]
        assert (result.steps, result.checkpoint_path) == (count, None)


def test_overfitting_reads_the_same_batches_again_and_validates_on_them() -> None:
    module, batches = Evaluated(), []

    class Notes(dt.Callback):
        def on_train_batch_start(self, trainer, module, batch, batch_idx):
            batches.append(batch[0][:, 0].tolist())

        def on_validation_batch_start(self, trainer, module, batch, batch_idx, dataloader_idx=0):
            batches.append(batch[0][:, 0].tolist())

    trainer = quiet(overfit_batches=2, max_epochs=2, callbacks=Notes())
    trainer.fit(module, loader(20, shuffle=True), loader(20))
    assert batches[:2] == batches[2:4] == batches[4:6] == batches[6:8]
    assert batches[0] != batches[1]


def test_loaders_are_made_anew_every_n_epochs() -> None:
    class Makes(Regression):
        made = 0

        def train_dataloader(self):
            self.made += 1
            return loader(4 * self.made)

    module = Makes()
    assert quiet(max_epochs=5, reload_dataloaders_every_n_epochs=2).fit(module).steps == 1 + 1 + 2 + 2 + 3
    assert module.made == 3
    assert quiet(max_epochs=2).fit(module).steps == 8


@pytest.mark.parametrize("inference_mode", [True, False])
def test_evaluation_is_without_gradients(inference_mode: bool) -> None:
    module = Evaluated()
    quiet(inference_mode=inference_mode).validate(module, loader(4))
    assert module.seen_grad == (False, inference_mode)


def test_what_a_validation_leaves_on_the_module_can_be_trained_with() -> None:
    class Keeps(Regression):
        kept: Any = None

        def validation_step(self, batch, batch_idx):
            self.kept = self(batch[0]).mean()

        def training_step(self, batch, batch_idx):
            loss = super().training_step(batch, batch_idx)
            return loss if self.kept is None else loss * self.kept

    assert quiet(max_epochs=2, num_sanity_val_steps=1).fit(Keeps(), loader(8), loader(4)).steps == 4


def test_torchs_switches_hold_during_a_run() -> None:
    class Looks(Regression):
        def training_step(self, batch, batch_idx):
            self.found = torch.is_anomaly_enabled(), torch.backends.cudnn.benchmark
            return super().training_step(batch, batch_idx)

    module = Looks()
    quiet(max_steps=1, detect_anomaly=True, benchmark=True).fit(module, loader())
    assert module.found == (True, True)
    assert (torch.is_anomaly_enabled(), torch.backends.cudnn.benchmark) == (False, False)


class Transfers(Regression):
    """Moves batches itself, in three hooks."""

    def on_before_batch_transfer(self, batch, dataloader_idx):
        return (*batch, "before")

    def transfer_batch_to_device(self, batch, device, dataloader_idx):
        assert device == torch.device("cpu")
        return [*super().transfer_batch_to_device(batch, device, dataloader_idx), "moved"]

    def on_after_batch_transfer(self, batch, dataloader_idx):
        assert batch[2:] == ["before", "moved"]
        return [*batch[:2], dataloader_idx]

    def loss(self, batch):
        self.last = batch[2]
        return super().loss(batch[:2])

    def predict_step(self, batch, batch_idx, dataloader_idx=0):
        return batch[2]


def test_batches_are_moved_by_the_modules_hooks_and_the_data_modules_win() -> None:
    module = Transfers()
    quiet(max_steps=2).fit(module, loader(), loader(8))
    assert module.last == 0
    assert quiet().predict(module, [loader(4), loader(4)]) == [[0], [1]]

    class Data(dt.DataModule):
        def predict_dataloader(self):
            return loader(4)

        def on_after_batch_transfer(self, batch, dataloader_idx):
            return [*batch[:2], "data module"]

    assert quiet().predict(module, datamodule=Data()) == ["data module"]


class OwnModes(Regression):
    """Sets its own mode for each evaluation."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []
        for name in ("on_validation_model_zero_grad", *MODES):
            vars(self)[name] = lambda name=name: self.calls.append(name)


MODES = [
    f"on_{stage}_model_{mode}" for stage in ("validation", "test", "predict") for mode in ("eval", "train")
]


def test_a_module_may_set_its_modes_itself() -> None:
    module, trainer = OwnModes(), quiet(max_epochs=1)
    trainer.fit(module, loader(8), loader(8))
    trainer.test(module, loader(8))
    trainer.predict(module, loader(8))
    assert module.calls == ["on_validation_model_zero_grad", *MODES]


def test_a_module_brings_callbacks_and_makes_its_layers_late() -> None:
    class Late(Regression):
        def __init__(self) -> None:
            super().__init__()
            self.late = None

        def configure_model(self):
            if self.late is None:
                self.late = torch.nn.Linear(1, 1)

        def forward(self, x):
            return self.late(super().forward(x))

        def configure_callbacks(self):
            return [Stops(3)]

    module = Late()
    trainer = quiet(max_epochs=1, callbacks=[Stops(7)])
    assert trainer.fit(module, loader()).steps == 3
    assert [one.at for one in trainer.callbacks] == [3]
    assert trainer.fit(Regression(), loader()).steps == 7
