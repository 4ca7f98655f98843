"""The Trainer's defaults and counts are those that code for Lightning depends on."""

from __future__ import annotations

import csv
import inspect
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

import drivetrain as dt
import drivetrain.compat.lightning as L  # noqa: N812 - as its users write it
from drivetrain.compat.keeping import CSVLogger
from tests.loops.models import data


class Net(L.LightningModule):
    def __init__(self, lr: float = 0.01) -> None:
        super().__init__()
        self.save_hyperparameters()
        torch.manual_seed(7)
        self.net = torch.nn.Linear(4, 1)

    def training_step(self, batch, batch_idx):
        loss = ((self.net(batch[0]) - batch[1]) ** 2).mean()
        self.log("loss", loss, prog_bar=True)
        self.log("both", loss, on_step=True, on_epoch=True)
        return loss

    def validation_step(self, batch, batch_idx):
        self.log("val", ((self.net(batch[0]) - batch[1]) ** 2).mean())

    test_step = validation_step

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=self.hparams.lr)


def loader(num_batches: int) -> DataLoader:
    return DataLoader(data(4 * num_batches), 4)


def made(folder: Path, **kwargs: Any) -> Any:
    return L.Trainer(
        **{
            "accelerator": "cpu",
            "devices": 1,
            "default_root_dir": folder,
            "enable_progress_bar": False,
            "logger": CSVLogger(folder),
            "num_sanity_val_steps": 0,
            "max_epochs": 1,
            **kwargs,
        }
    )


def rows(trainer: Any, column: str) -> list[int]:
    """Return the steps at which something was written under a name."""
    with (Path(trainer.logger.log_dir) / "metrics.csv").open(encoding="utf-8") as file:
        return [int(row["step"]) for row in csv.DictReader(file) if row.get(column)]


def test_a_logger_and_a_checkpoint_are_there_without_asking(tmp_path):
    trainer = made(tmp_path, logger=None)
    assert trainer.fit(Net(), loader(3)) is None
    assert trainer.log_dir == str(tmp_path / "lightning_logs" / "version_0")
    best = Path(trainer.checkpoint_callback.best_model_path)
    assert best == Path(trainer.log_dir) / "checkpoints" / "epoch=0-step=3.ckpt"
    assert best.exists()
    again = made(tmp_path, logger=False, enable_checkpointing=False)
    assert (again.logger, again.checkpoint_callback) == (None, None)
    away = made(tmp_path / "other", logger=False)
    away.fit(Net(), loader(3))
    assert Path(away.checkpoint_callback.best_model_path).parent == tmp_path / "other" / "checkpoints"


def test_a_value_is_written_at_the_number_of_steps_before_it(tmp_path):
    trainer = made(tmp_path, max_epochs=2, log_every_n_steps=5)
    trainer.fit(Net(), loader(7), loader(2))
    assert rows(trainer, "loss") == [4, 9]
    assert rows(trainer, "both_step") == [4, 9]
    assert rows(trainer, "both_epoch") == rows(trainer, "val") == [6, 13]
    assert trainer.global_step == 14
    assert set(trainer.logged_metrics) == {"loss", "both_step", "both_epoch", "val"}
    assert {"loss", "both", "both_step", "both_epoch", "val"} == set(trainer.callback_metrics)
    assert "loss" in trainer.progress_bar_metrics
    trainer.test(dataloaders=loader(2), verbose=False)
    assert rows(trainer, "val")[-1] == 14


def test_what_is_logged_as_step_is_the_step(tmp_path):
    class ByEpoch(Net):
        def on_train_epoch_end(self):
            self.log("step", float(self.current_epoch))
            self.log("score", 1.0)

    trainer = made(tmp_path, max_epochs=3)
    trainer.fit(ByEpoch(), loader(7))
    assert rows(trainer, "score") == [0, 1, 2]
    quiet = made(tmp_path, log_every_n_steps=0)
    quiet.fit(Net(), loader(3), loader(2))
    assert rows(quiet, "loss") == []
    assert rows(quiet, "val") == [2]


class TwoByHand(Net):
    def __init__(self) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.other = torch.nn.Linear(4, 1)

    def configure_optimizers(self):
        nets = (self.net, self.other)
        return [torch.optim.SGD(net.parameters(), lr=0.01) for net in nets], []

    def training_step(self, batch, batch_idx):
        for net, optimizer in zip((self.net, self.other), self.optimizers(), strict=True):
            optimizer.zero_grad()
            loss = ((net(batch[0]) - batch[1]) ** 2).mean()
            self.manual_backward(loss, retain_graph=True)
            optimizer.step()
        self.log("loss", loss)


def test_by_hand_each_optimizers_steps_count(tmp_path):
    trainer = made(tmp_path, log_every_n_steps=2)
    trainer.fit(TwoByHand(), loader(5))
    assert trainer.global_step == 10
    assert rows(trainer, "loss") == [1, 3]
    assert Path(trainer.checkpoint_callback.best_model_path).name == "epoch=0-step=10.ckpt"
    bounded = made(tmp_path, max_steps=6, max_epochs=-1)
    bounded.fit(TwoByHand(), loader(5))
    assert bounded.global_step == 6
    resumed = made(tmp_path, max_epochs=2)
    resumed.fit(TwoByHand(), loader(5), ckpt_path=trainer.checkpoint_callback.best_model_path)
    assert resumed.global_step == 20


def test_a_test_without_a_model_takes_the_best_checkpoint(tmp_path):
    net = Net()
    saves = L.callbacks.ModelCheckpoint(monitor="val", mode="max", every_n_epochs=1)
    trainer = made(tmp_path, max_epochs=3, callbacks=[saves])
    trainer.fit(net, loader(5), loader(2))
    assert saves.best_model_path.endswith("epoch=0-step=5.ckpt")  # the worst: the loss falls
    now = trainer.test(net, loader(2), verbose=False)[0]["val"]
    best = trainer.test(dataloaders=loader(2), verbose=False)[0]["val"]
    assert best == pytest.approx(float(saves.best_model_score), rel=1e-6)
    assert best > now
    assert trainer.ckpt_path == saves.best_model_path


def test_results_are_printed_unless_told_otherwise(tmp_path, capsys):
    trainer = made(tmp_path)
    trainer.validate(Net(), loader(2))
    assert "validate metrics\n  val " in capsys.readouterr().out
    trainer.validate(Net(), loader(2), verbose=False)
    assert not capsys.readouterr().out


def test_last_is_the_newest_or_a_new_beginning(tmp_path):
    saves = L.callbacks.ModelCheckpoint(tmp_path / "a", save_last=True)
    trainer = made(tmp_path, callbacks=[saves])
    with pytest.warns(UserWarning, match="begins anew"):
        trainer.fit(Net(), loader(3), ckpt_path="last")
    again = made(
        tmp_path, max_epochs=2, callbacks=[L.callbacks.ModelCheckpoint(tmp_path / "a", save_last=True)]
    )
    again.fit(Net(), loader(3), ckpt_path="last")
    assert again.global_step == 6
    assert Path(again.ckpt_path).name == "last.ckpt"


def test_a_second_fit_begins_anew_and_says_so(tmp_path):
    trainer, module = made(tmp_path, logger=False, enable_checkpointing=False), Net()
    trainer.fit(module, loader(3))
    with pytest.warns(dt.DrivetrainWarning, match=r"compat.fit-again.*epoch 1 and step 3.*ckpt_path=path"):
        trainer.fit(module, loader(3))
    assert (trainer.current_epoch, trainer.global_step) == (1, 3)
    trainer.save_checkpoint(tmp_path / "one.ckpt")
    more = made(tmp_path, logger=False, enable_checkpointing=False, max_epochs=2)
    more.fit(module, loader(3), ckpt_path=tmp_path / "one.ckpt")
    assert (more.current_epoch, more.global_step) == (2, 6)


def test_a_smoke_run_writes_nothing_and_keeps_its_callbacks_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    callbacks = [L.callbacks.ModelCheckpoint(), L.callbacks.EarlyStopping("never logged")]
    trainer = L.Trainer(fast_dev_run=2, accelerator="cpu", callbacks=callbacks, enable_progress_bar=False)
    trainer.fit(Net(), loader(5), loader(5))
    assert trainer.global_step == 2
    assert trainer.checkpoint_callback is callbacks[0]
    assert trainer.early_stopping_callback is callbacks[1]
    assert callbacks[0].best_model_path == ""
    assert [*tmp_path.iterdir()] == []


def test_data_modules_may_stand_in_the_loaders_place(tmp_path):
    class Data(L.LightningDataModule):
        def train_dataloader(self):
            return loader(3)

        def test_dataloader(self):
            return loader(2)

        predict_dataloader = test_dataloader

    class Predicts(Net):
        def forward(self, batch):
            return self.net(batch[0])

    net, trainer = Predicts(), made(tmp_path)
    trainer.fit(net, Data())
    assert trainer.global_step == 3
    assert trainer.test(net, Data(), verbose=False)[0].keys() == {"val"}
    predicted = trainer.predict(net, Data())
    assert [one.shape for one in predicted] == [(4, 1), (4, 1)]
    assert trainer.predict(net, Data(), return_predictions=False) is None


def test_the_state_says_what_goes_on(tmp_path):
    from drivetrain.compat.lightning.trainer.states import RunningStage, TrainerFn, TrainerStatus

    seen: list[Any] = []

    class Looks(Net):
        def setup(self, stage):
            seen.append(stage == TrainerFn.FITTING)

        def on_train_batch_start(self, batch, batch_idx):
            seen.append((self.trainer.state.fn, self.trainer.state.stage, self.trainer.state.status))

    trainer = made(tmp_path, limit_train_batches=1)
    trainer.fit(Looks(), loader(3))
    assert seen == [True, (TrainerFn.FITTING, RunningStage.TRAINING, TrainerStatus.RUNNING)]
    assert trainer.state.finished


def test_settings_can_be_asked_for(tmp_path):
    trainer = made(tmp_path, gradient_clip_val=0.5, limit_val_batches=0.5, overfit_batches=2)
    assert (trainer.gradient_clip_val, trainer.gradient_clip_algorithm) == (0.5, "norm")
    assert (trainer.overfit_batches, trainer.limit_train_batches) == (2, 2)
    assert (trainer.log_every_n_steps, trainer.fast_dev_run) == (50, False)
    other = CSVLogger(tmp_path)
    trainer.logger = other
    assert trainer.loggers == [other]


def test_names_that_are_today_there_are_not_warned_of(tmp_path):
    trainer = made(tmp_path, strategy="ddp_find_unused_parameters_true")
    assert trainer.plan.strategy.name == "ddp"


def test_the_seed_gives_the_order_of_the_data(tmp_path):
    from drivetrain.compat import tools

    orders = []
    for seed in (1, 2, 1):
        L.seed_everything(seed, verbose=False)
        seen: list[float] = []

        class Looks(Net):
            def training_step(self, batch, batch_idx):
                seen.extend(batch[0][:, 0].tolist())  # noqa: B023 - run within this turn
                return super().training_step(batch, batch_idx)

        shuffled = DataLoader(data(20), 4, shuffle=True)
        made(tmp_path, logger=False, enable_checkpointing=False).fit(Looks(), shuffled)
        orders.append(seen)
    assert orders[0] == orders[2] != orders[1]
    tools._SEEDS.clear()


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        (TypeError, {"max_epohs": 3}),
        (ValueError, {"accelerator": "abacus"}),
        (ValueError, {"strategy": "dpp"}),
        (ValueError, {"max_epochs": "many"}),
    ],
)
def test_errors_are_of_the_known_kind_and_of_ours(tmp_path, kind, arguments):
    from drivetrain.compat.lightning.utilities.exceptions import MisconfigurationException

    with pytest.raises(MisconfigurationException) as found:
        made(tmp_path, **arguments)
    assert isinstance(found.value, (dt.PlanError, dt.TrainerError))
    assert isinstance(found.value, kind)


def test_every_argument_of_lightnings_trainer_is_known():
    known = set(inspect.signature(L.Trainer).parameters)
    assert known >= {
        "accelerator", "strategy", "devices", "num_nodes", "precision", "logger", "callbacks",
        "fast_dev_run", "max_epochs", "min_epochs", "max_steps", "min_steps", "max_time",
        "limit_train_batches", "limit_val_batches", "limit_test_batches", "limit_predict_batches",
        "overfit_batches", "val_check_interval", "check_val_every_n_epoch", "num_sanity_val_steps",
        "log_every_n_steps", "enable_checkpointing", "enable_progress_bar", "enable_model_summary",
        "accumulate_grad_batches", "gradient_clip_val", "gradient_clip_algorithm", "deterministic",
        "benchmark", "inference_mode", "use_distributed_sampler", "profiler", "detect_anomaly", "barebones",
        "plugins", "sync_batchnorm", "reload_dataloaders_every_n_epochs", "default_root_dir",
        "enable_autolog_hparams", "model_registry", "suggest_integrations",
    }  # fmt: skip


def test_modules_of_both_kinds_run_in_either_trainer(tmp_path):
    from tests.loops.models import Regression, quiet

    mine = made(tmp_path)
    mine.fit(Regression(), loader(3), loader(2))
    assert mine.global_step == quiet(max_epochs=1).fit(Net(), loader(3), loader(2)).steps == 3


def test_a_bare_run_has_nothing_around_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    trainer = L.Trainer(barebones=True, max_steps=2, accelerator="cpu")
    trainer.fit(Net(), loader(3))
    assert (trainer.global_step, trainer.logger, trainer.callbacks) == (2, None, [])
    assert [*tmp_path.iterdir()] == []


def test_what_a_sampler_of_ones_own_takes(tmp_path):
    assert made(tmp_path).distributed_sampler_kwargs is None
    several = made(tmp_path, devices=2, strategy="ddp")
    assert several.distributed_sampler_kwargs == {"num_replicas": 2, "rank": 0}


def test_a_precision_that_scales_nothing_has_no_scaler(tmp_path):
    trainer = made(tmp_path, max_epochs=1)
    trainer.fit(Net(), loader(3))
    assert trainer.scaler is None


def test_one_that_scales_the_loss_has_torchs_scaler(tmp_path):
    trainer = made(tmp_path, max_steps=2, precision="16-mixed")
    trainer.fit(Net(), loader(3))
    assert isinstance(trainer.scaler, torch.amp.GradScaler)
    assert trainer.scaler.get_scale() in (2.0**14, 2.0**15, 2.0**16)


class Outputs(Net):
    def __init__(self, how: str) -> None:
        super().__init__()
        self.how, self.seen = how, []
        self.automatic_optimization = how != "by hand"

    def training_step(self, batch, batch_idx):
        if self.how == "none":
            return None
        loss = super().training_step(batch, batch_idx)
        self.loss = loss.detach()
        if self.how == "by hand":
            self.manual_backward(loss)
            self.optimizers().step()
        return {"loss": loss, "size": 4} if self.how == "dict" else loss

    def on_train_batch_end(self, outputs, batch, batch_idx):
        self.seen.append(outputs)


@pytest.mark.parametrize(
    ("how", "factor", "names"),
    [("tensor", 1, ["loss"]), ("dict", 2, ["loss", "size"]), ("by hand", 1, ["loss"]), ("none", 1, [])],
)
def test_hooks_get_a_step_s_output_as_a_dict(tmp_path, how, factor, names):
    module = Outputs(how)
    made(tmp_path, accumulate_grad_batches=factor).fit(module, loader(2))
    assert [list(one) for one in module.seen] == [names] * 2
    if names:
        found = module.seen[-1]["loss"]
        assert not found.requires_grad
        assert found == module.loss / factor


def test_a_sanity_check_is_an_evaluation(tmp_path):
    class Asks(Net):
        def on_validation_start(self):
            self.found = (self.trainer.sanity_checking, self.trainer.evaluating, self.trainer.validating)

    module = Asks()
    made(tmp_path, num_sanity_val_steps=1, max_epochs=0).fit(module, loader(1), loader(1))
    assert module.found == (True, True, False)


def test_rates_are_logged_beside_the_losses_whatever_the_number_of_optimizers(tmp_path):
    class Two(Net):
        automatic_optimization = property(lambda self: False, lambda self, value: None)

        def training_step(self, batch, batch_idx):
            for optimizer in self.optimizers():
                optimizer.zero_grad()
                self.manual_backward(((self.net(batch[0]) - batch[1]) ** 2).mean())
                optimizer.step()
            self.log("loss", 1.0)

        def configure_optimizers(self):
            return [torch.optim.SGD(self.parameters(), lr=0.01) for _ in range(2)]

    trainer = made(tmp_path, log_every_n_steps=2, callbacks=dt.LearningRateMonitor("step"))
    trainer.fit(Two(), loader(6))
    assert trainer.global_step == 12
    assert rows(trainer, "loss") == rows(trainer, "lr-SGD") == rows(trainer, "lr-SGD-1") == [1, 3, 5]
    other = made(tmp_path, log_every_n_steps=2, callbacks=dt.LearningRateMonitor("step"))
    other.fit(Net(), loader(6))
    assert rows(other, "loss") == rows(other, "lr-SGD") == [1, 3, 5]


def test_gradients_are_gone_before_a_validation_unless_a_window_is_open(tmp_path):
    class Looks(Net):
        def __init__(self, *, by_hand: bool) -> None:
            super().__init__()
            self.automatic_optimization, self.seen = not by_hand, []

        def training_step(self, batch, batch_idx):
            loss = super().training_step(batch, batch_idx)
            if not self.automatic_optimization:
                self.manual_backward(loss)
            return loss

        def on_validation_start(self):
            self.seen.append(self.net.weight.grad is not None)

    found = []
    for by_hand, factor in ((True, 1), (False, 1), (False, 2)):
        module = Looks(by_hand=by_hand)
        made(tmp_path, val_check_interval=1, accumulate_grad_batches=factor).fit(module, loader(2), loader(1))
        found.append(module.seen)
    assert found == [[False, False], [False, False], [True, False]]


def test_what_has_no_length_has_infinitely_many_batches(tmp_path):
    class Endless(torch.utils.data.IterableDataset):
        def __iter__(self):
            yield from data(8)

    trainer = made(tmp_path)
    assert (trainer.num_training_batches, trainer.num_val_batches) == (float("inf"), [])
    trainer.fit(Net(), DataLoader(Endless(), 4), DataLoader(Endless(), 4))
    assert (trainer.num_training_batches, trainer.num_val_batches) == (float("inf"), [float("inf")])
    line = dt.LineProgress()
    made(tmp_path, enable_progress_bar=True, callbacks=line).fit(Net(), DataLoader(Endless(), 4))


def test_no_default_summary_leaves_a_given_one(tmp_path, capsys):
    made(tmp_path, enable_model_summary=False, callbacks=dt.ModelSummary()).fit(Net(), loader(1))
    assert "Linear" in "".join(capsys.readouterr())
    made(tmp_path, enable_model_summary=False).fit(Net(), loader(1))
    assert "Linear" not in "".join(capsys.readouterr())
