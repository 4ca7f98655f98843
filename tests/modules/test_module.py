from __future__ import annotations

import copy
import pickle
from argparse import Namespace
from pathlib import Path

import pytest
import torch

import drivetrain as dt
from tests.loops.models import Regression, data, loader, quiet


class Parent(dt.Module):
    def __init__(self, width: int, *, names: list[str], **rest: int) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.linear = torch.nn.Linear(width, width)


class Child(Parent):
    def __init__(self, depth: int, width: int = 3) -> None:
        super().__init__(width, names=["a"], extra=1)
        self.depth = depth


class WithNetwork(dt.Module):
    def __init__(self, lr: float, network: torch.nn.Module, unused: object = None) -> None:
        super().__init__()
        self.save_hyperparameters(ignore="unused")
        self.network = network


def test_hyperparameters_are_the_arguments_of_every_init() -> None:
    hparams = Child(2).hparams
    assert hparams == {"depth": 2, "width": 3, "names": ["a"], "extra": 1}
    assert hparams.depth == 2
    with pytest.raises(AttributeError, match=r"there are: width, names, extra, depth"):
        _ = hparams.missing


def test_what_is_no_plain_data_is_kept_and_said_to_stay_out_of_checkpoints() -> None:
    with pytest.warns(dt.DrivetrainWarning, match=r"\[module.hyperparameters\].*'network'.*ignore="):
        module = WithNetwork(0.1, torch.nn.Linear(1, 1), object())
    assert module.hparams.keys() == {"lr", "network"}


def test_values_can_be_passed_and_a_call_elsewhere_is_an_error() -> None:
    module = dt.Module()
    module.save_hyperparameters({"lr": 1})
    assert module.hparams == {"lr": 1}
    with pytest.raises(dt.ModuleError, match=r"module.hyperparameters"):
        module.save_hyperparameters()


def test_outside_of_a_run_there_is_no_log_and_no_trainer() -> None:
    module = Regression()
    with pytest.raises(dt.ModuleError, match=r"module.log-outside\] self.log\('a'"):
        module.log("a", 1.0)
    with pytest.raises(dt.ModuleError, match=r"module.no-trainer"):
        _ = module.trainer
    assert (module.current_epoch, module.global_step, module.global_rank, module.local_rank) == (0, 0, 0, 0)
    assert module.device == torch.device("cpu")
    assert module.dtype is torch.float32


def test_a_module_from_a_checkpoint_is_the_one_that_was_saved(tmp_path: Path) -> None:
    module, trainer = Regression(lr=0.02), quiet(max_epochs=1)
    trainer.fit(module, loader())
    trainer.save_checkpoint(tmp_path / "a.ckpt", weights_only=True)

    loaded = Regression.load_from_checkpoint(tmp_path / "a.ckpt", dropout=0.5)

    assert loaded.hparams == {"lr": 0.02, "dropout": 0.5}
    for one, other in zip(module.parameters(), loaded.parameters(), strict=True):
        assert torch.equal(one, other)
    with pytest.raises(dt.CheckpointError, match=r"checkpoint.no-weights[\s\S]*Missing key"):
        Child.load_from_checkpoint(tmp_path / "a.ckpt", depth=1)


def test_a_module_that_has_run_can_be_copied_and_pickled() -> None:
    module = Regression()
    quiet(max_epochs=1).fit(module, loader())
    for twin in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):  # noqa: S301 - our own bytes
        assert torch.equal(twin.net[0].weight, module.net[0].weight)
        with pytest.raises(dt.ModuleError):
            _ = twin.trainer
    assert module.trainer.global_step == 10


def test_predict_step_defaults_to_forward_of_the_inputs() -> None:
    class Plain(Regression):
        predict_step = dt.Module.predict_step

    module = Plain()
    batch = data(4)[:]
    assert torch.equal(module.predict_step(batch, 0), module(batch[0]))
    assert torch.equal(module.predict_step(batch[0], 0), module(batch[0]))


def test_first_hyperparameters_stay_when_later_ones_change() -> None:
    module = Regression()
    module.hparams.lr = 5.0
    assert module.hparams_initial.lr == 0.01
    module.save_hyperparameters({"secret": 1}, logger=False)
    assert module._unlogged_hparams == {"secret"}


def test_freezing_and_loading_a_part() -> None:
    module = Regression()
    module.freeze()
    assert not any(one.requires_grad or module.training for one in module.parameters())
    module.unfreeze()
    assert all(one.requires_grad and module.training for one in module.parameters())


class Late(Regression):
    """Makes a layer late; loads without it."""

    strict_loading = False

    def configure_model(self):
        self.late = torch.nn.Linear(1, 1)


def test_a_module_says_how_strictly_it_is_loaded(tmp_path) -> None:
    path, trainer = tmp_path / "a.ckpt", quiet(max_epochs=1)
    trainer.fit(Regression(), loader(8))
    trainer.save_checkpoint(path)
    assert Late.load_from_checkpoint(path).late.weight.shape == (1, 1)
    trainer.test(Late(), loader(8), ckpt_path=path)
    with pytest.raises(dt.CheckpointError, match=r"checkpoint.no-weights"):
        Late.load_from_checkpoint(path, strict=True)


class Asks(Regression):
    """Asks the trainer what it knows of the run."""

    def configure_optimizers(self):
        self.total = self.trainer.estimated_stepping_batches
        self.lasts: list[int] = []
        return super().configure_optimizers()

    def training_step(self, batch, batch_idx):
        if self.trainer.is_last_batch:
            self.lasts.append(batch_idx)
        return super().training_step(batch, batch_idx)

    def on_train_batch_end(self, outputs, batch, batch_idx):
        trainer = self.trainer
        self.found = (
            trainer.num_training_batches,
            trainer.num_val_batches,
            trainer.is_last_batch,
            trainer.training,
            trainer.enable_validation,
            trainer.train_dataloader.batch_size,
            trainer.precision,
            trainer.device_ids,
            trainer.node_rank,
        )
        self.gathered = self.all_gather({"x": torch.ones(2)})["x"].shape


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"max_epochs": 3}, 30),
        ({"max_steps": 7}, 7),
        ({"max_epochs": 3, "max_steps": 100}, 30),
        ({"max_epochs": 3, "accumulate_grad_batches": 4}, 9),
        ({"max_epochs": 3, "accumulate_grad_batches": {1: 2}}, 20),
        ({"max_epochs": 3, "accumulate_grad_batches": 4, "accumulate_across_epochs": True}, 8),
        ({"max_epochs": "1.5 epochs", "accumulate_grad_batches": 3}, 6),
        ({"max_epochs": "1.5 epochs", "accumulate_grad_batches": 4, "accumulate_across_epochs": True}, 4),
    ],
)
def test_the_number_of_steps_is_known_before_the_first(given: dict, expected: int) -> None:
    module, is_whole = Asks(), type(given.get("max_epochs")) is int and "max_steps" not in given
    trainer = quiet(**given)
    assert trainer.fit(module, loader(39), loader(8)).steps == module.total == expected
    assert module.found == (10, [2], True, True, True, 4, "32-true", [0], 0) or not is_whole
    assert module.gathered == (1, 2)
    assert module.lasts == [9] * trainer.current_epoch


class Old(dt.Module):
    """Takes all of its settings as one argument, as modules of before 1.0 did."""

    def __init__(self, hparams, width=1):
        super().__init__()
        self.save_hyperparameters({"early": width})
        self.save_hyperparameters(hparams)
        self.seen, self.net = hparams, torch.nn.Linear(4, width)

    configure_optimizers = Regression.configure_optimizers

    def training_step(self, batch, batch_idx):
        return self(batch[0].float()).square().mean()

    def forward(self, x):
        return self.net(x)


def test_a_module_without_arguments_has_none_to_save() -> None:
    class Nothing(dt.Module):
        def __init__(self):
            super().__init__()
            self.save_hyperparameters()

    assert Nothing().hparams == {}
    with pytest.raises(dt.ModuleError, match=r"module.hyperparameters"):
        Nothing().save_hyperparameters()


@pytest.mark.parametrize("given", [Namespace(lr=0.5, names=["a"]), {"lr": 0.5, "names": ["a"]}])
def test_an_argument_that_holds_all_settings_is_given_back_as_one(tmp_path: Path, given: object) -> None:
    module, trainer = Old(given), quiet(max_steps=1)
    assert module.hparams_initial == {"early": 1, "lr": 0.5, "names": ["a"]}
    trainer.fit(module, loader())
    trainer.save_checkpoint(tmp_path / "a.ckpt")
    loaded = Old.load_from_checkpoint(tmp_path / "a.ckpt", lr=0.25)
    assert (loaded.seen.lr, loaded.seen["names"], loaded.hparams.lr) == (0.25, ["a"], 0.25)
    assert Old.load_from_checkpoint(tmp_path / "a.ckpt", hparams={"lr": 1.0}).seen == {"lr": 1.0}


def test_the_last_batch_is_known_while_it_is_taken() -> None:
    class Looks(Regression):
        found: list[bool]

        def look(self, *_):
            self.found.append(self.trainer.is_last_batch)

        on_train_epoch_start = on_train_batch_start = on_train_batch_end = on_train_epoch_end = look

        def training_step(self, batch, batch_idx):
            self.look()
            return super().training_step(batch, batch_idx)

    module = Looks()
    module.found = []
    trainer = quiet(max_epochs=2)
    trainer.fit(module, loader(8, 4))
    first, last = [False] * 3, [True] * 3
    assert module.found == [False, *first, *last, True, True, *first, *last, True]
    assert trainer.is_last_batch
