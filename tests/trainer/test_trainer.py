from __future__ import annotations

import os
import re
import time
import warnings

import pytest
import torch

import drivetrain as dt
from tests.loops.models import Regression, loader, quiet


def test_the_plan_is_resolved_at_once() -> None:
    trainer = dt.Trainer(accelerator="cpu", devices=3, strategy="ddp", precision="bf16-mixed")
    assert (trainer.plan.strategy.name, trainer.world_size, trainer.num_devices) == ("ddp", 3, 3)
    assert trainer.plan == dt.plan(accelerator="cpu", devices=3, strategy="ddp", precision="bf16-mixed")
    assert "Trainer(devices=3), test_trainer.py" in trainer.plan.explain()
    with pytest.raises(dt.PlanError):
        dt.Trainer(accelerator="cpu", devices=0)
    assert (trainer.global_rank, trainer.local_rank, trainer.is_global_zero) == (0, 0, True)
    assert (trainer.current_epoch, trainer.global_step, trainer.optimizers) == (0, 0, [])


def test_what_cannot_run_yet_says_so_before_anything_starts() -> None:
    for flags, says in (
        ({"strategy": "tp", "devices": 2}, "strategy 'tp'.*'ddp'"),
        (
            {"strategy": "ddp", "devices": 2, "plugins": [dt.LayerSyncFacts("mine")]},
            "sync_batchnorm 'LayerSyncFacts'.*False",
        ),
    ):
        trainer = dt.Trainer(**{"accelerator": "cpu", **flags})
        with pytest.raises(dt.BuildError) as caught:
            trainer.fit(Regression(), loader())
        text = str(caught.value).replace("\n", " ")
        assert caught.value.code == "build.not-available"
        assert re.search(says, text), text


@pytest.mark.parametrize(
    ("given", "code", "says"),
    [
        ({"max_epoch": 3}, "trainer.unknown-argument", "did you mean 'max_epochs'?"),
        ({"zzz": 3}, "trainer.unknown-argument", "leave it out"),
        ({"model_registry": "x"}, "trainer.later-argument", "leave model_registry out"),
        ({"accumulate_grad_batches": 0}, "trainer.bad-argument", "accumulate_grad_batches cannot be 0"),
        ({"gradient_clip_val": -1.0}, "trainer.bad-argument", "gradient_clip_val cannot be -1.0"),
        ({"gradient_clip_algorithm": "size"}, "trainer.bad-argument", "'norm' or 'value'"),
        ({"val_check_interval": 1.5}, "trainer.bad-argument", "val_check_interval cannot be 1.5"),
        ({"check_val_every_n_epoch": None}, "trainer.bad-argument", "val_check_interval in batches"),
        ({"num_sanity_val_steps": -2}, "trainer.bad-argument", "num_sanity_val_steps cannot be -2"),
        ({"min_epochs": "1.5 epochs", "max_epochs": 3}, "trainer.bad-argument", "min_epochs is whole epochs"),
        ({"max_steps": "5 epochs"}, "trainer.bad-argument", "steps, samples, tokens"),
        ({"max_epochs": "5 tokens"}, "trainer.bad-argument", "epochs"),
        ({"val_check_interval": "5 parsecs"}, "trainer.bad-argument", "unknown unit 'parsecs'"),
        ({"max_epochs": "0 epochs"}, "trainer.bad-argument", "more than 0"),
        ({"val_check_interval": "5 steps", "check_val_every_n_epoch": 2}, "trainer.bad-argument", "left out"),
        ({"inference_mode": 1}, "trainer.bad-argument", "inference_mode cannot be 1"),
        ({"logger": 3}, "trainer.bad-argument", "a Logger or a list"),
        ({"barebones": True, "logger": True}, "trainer.bad-argument", "barebones=True"),
        ({"max_epochs": -2}, "trainer.bad-argument", "max_epochs cannot be -2"),
        ({"max_steps": 1.5}, "trainer.bad-argument", "max_steps cannot be 1.5"),
        ({"limit_val_batches": -1}, "trainer.bad-argument", "limit_val_batches"),
        ({"callbacks": ["x"]}, "trainer.bad-argument", "a Callback or a list"),
        ({"deterministic": "yes"}, "trainer.bad-argument", "'warn'"),
        (
            {"callbacks": dt.ModelCheckpoint(), "enable_checkpointing": False},
            "trainer.bad-argument",
            "enable_checkpointing",
        ),
        (
            {"callbacks": dt.ModelSummary(), "enable_model_summary": False},
            "trainer.bad-argument",
            "not False with a ModelSummary in callbacks",
        ),
        ({"profiler": "sample"}, "trainer.bad-argument", "pass profiler='simple'"),
        ({"profiler": dt.SimpleProfiler}, "trainer.bad-argument", "a Profiler object"),
        ({"barebones": True, "profiler": "simple"}, "trainer.bad-argument", "barebones=True"),
        ({"barebones": True, "enable_model_summary": True}, "trainer.bad-argument", "barebones=True"),
    ],
)
def test_other_arguments_are_refused(given: dict, code: str, says: str) -> None:
    with pytest.raises(dt.TrainerError) as caught:
        dt.Trainer(**given)
    assert caught.value.code == code
    assert says in str(caught.value)


def test_old_spellings_reach_the_arguments_of_today() -> None:
    with pytest.warns(dt.DrivetrainDeprecationWarning, match=r"enable_progress_bar"):
        trainer = dt.Trainer(progress_bar_refresh_rate=0, enable_model_summary=False)
    assert trainer.callbacks == []
    with pytest.warns(dt.DrivetrainDeprecationWarning):
        assert len(dt.Trainer(checkpoint_callback=True).callbacks) == 3


def test_an_old_place_to_resume_from_is_where_fit_goes_on(tmp_path) -> None:
    first = quiet(max_epochs=1)
    first.fit(Regression(), loader())
    first.save_checkpoint(tmp_path / "a.ckpt")
    with pytest.warns(dt.DrivetrainDeprecationWarning, match="ckpt_path="):
        second = quiet(max_epochs=3, resume_from_checkpoint=str(tmp_path / "a.ckpt"))
    result = second.fit(Regression(), loader())
    assert (result.epochs, result.steps_here, result.steps) == (3, 20, 30)


def test_a_model_is_a_module() -> None:
    with pytest.raises(dt.TrainerError, match=r"trainer.not-a-module\] the model is a Linear"):
        quiet(max_epochs=1).fit(torch.nn.Linear(1, 1), loader())
    with pytest.raises(dt.TrainerError, match=r"trainer.no-run"):
        quiet().save_checkpoint("a.ckpt")


def test_after_a_fit_its_state_can_be_read_and_saved_even_after_other_verbs(tmp_path) -> None:
    trainer, module = quiet(max_epochs=2), Regression()
    result = trainer.fit(module, loader(), loader(5, 2))
    trainer.validate(dataloaders=loader(5, 2))
    assert (trainer.current_epoch, trainer.global_step, trainer.model) == (2, 20, module)
    assert set(result.metrics) == {"loss", "loss_step", "loss_epoch", "val"}
    assert result.steps_per_s > 0
    trainer.save_checkpoint(tmp_path / "a.ckpt")
    found = torch.load(tmp_path / "a.ckpt", weights_only=True)
    assert found["global_step"] == 20
    assert len(found["optimizer_states"]) == 1
    assert dt.Plan.from_dict(found["plan"]) == trainer.plan


def test_deterministic_holds_during_a_run_only() -> None:
    class Asks(Regression):
        def on_train_start(self):
            seen.append(torch.are_deterministic_algorithms_enabled())

    seen: list[bool] = []
    quiet(max_epochs=1, deterministic=True).fit(Asks(), loader())
    assert seen == [True]
    assert not torch.are_deterministic_algorithms_enabled()


def test_a_run_warns_of_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        quiet(max_epochs=1).fit(Regression(), loader(), loader(5, 2))


def test_objects_take_the_place_of_names() -> None:
    storage = dt.LocalCheckpointIO()
    trainer = quiet(max_epochs=1, plugins=[storage, dt.MixedPrecision("bf16-mixed")])
    trainer.fit(Regression(), loader())
    assert trainer.plan.precision == "bf16-mixed"
    assert trainer._fitted.strategy.checkpoint_io is storage


def test_flags_may_be_others_for_one_call(tmp_path) -> None:
    trainer = quiet(devices=2, strategy="ddp", max_epochs=1)
    worlds: list[tuple[int, str]] = []

    class Looks(Regression):
        def on_test_start(self):
            worlds.append((self.trainer.world_size, self.trainer.plan.strategy.name))

    module = Looks()
    assert trainer.test(module, loader(5), strategy="single")[0]["count"] == pytest.approx((16 + 1) / 5)
    trainer.test(module, loader(5), devices=1)
    assert worlds == [(1, "single"), (1, "ddp")]
    assert trainer.world_size == 2
    with pytest.raises(dt.PlanError, match=r"plan.strategy-world"):
        trainer.test(module, loader(5), strategy="single", devices=2)
    with pytest.raises(dt.PlanError, match=r"plan.devices-value"):
        trainer.test(module, loader(5), devices=0)
    with pytest.raises(dt.TrainerError, match="did you mean 'devices'"):
        trainer.test(module, loader(5), device=1)


def test_the_best_checkpoint_is_found_by_its_name(tmp_path) -> None:
    saves = dt.ModelCheckpoint(tmp_path, monitor="val", mode="max", save_top_k=1)
    trainer = quiet(max_epochs=3, callbacks=[saves, dt.EarlyStopping("val")])
    module = Regression()
    trainer.fit(module, loader(), loader(8))
    assert trainer.checkpoint_callback is saves
    assert trainer.early_stopping_callback is trainer.callbacks[1]
    trainer.test(module, loader(8), ckpt_path="best")
    assert trainer.ckpt_path == saves.best_model_path
    with pytest.raises(dt.TrainerError, match=r"trainer.no-best"):
        quiet().test(module, loader(8), ckpt_path="best")


def test_the_last_checkpoint_is_found_by_its_name(tmp_path) -> None:
    saves, module = dt.ModelCheckpoint(tmp_path), Regression()
    trainer = quiet(max_epochs=1, callbacks=[saves])
    with pytest.raises(dt.TrainerError, match=r"trainer.no-last"):
        trainer.test(module, loader(8), ckpt_path="last")
    trainer.fit(module, loader())
    trainer.test(module, loader(8), ckpt_path="last")
    assert trainer.ckpt_path == saves.newest_model_path
    with pytest.raises(dt.TrainerError, match=r"trainer.bad-argument\] ckpt_path=3"):
        trainer.fit(module, loader(), ckpt_path=3)


def test_a_new_process_goes_on_from_the_newest_file_of_the_one_before(tmp_path, capsys) -> None:
    def trainer(epochs: int) -> dt.Trainer:
        saves = dt.ModelCheckpoint(tmp_path / "here", save_last=True)
        return quiet(max_epochs=epochs, callbacks=[saves], default_root_dir=tmp_path)

    with pytest.warns(dt.DrivetrainWarning, match=r"trainer.no-last\].*begins anew"):
        first = trainer(2).fit(Regression(), loader(), ckpt_path="last")
    assert first.steps_here == first.steps
    second = trainer(3)
    result = second.fit(Regression(), loader(), ckpt_path="last")
    assert (result.steps_here, result.steps) == (first.steps // 2, first.steps // 2 * 3)
    assert f"going on from {second.ckpt_path}" in capsys.readouterr().out
    signalled = tmp_path / "checkpoints" / "signal.ckpt"
    signalled.parent.mkdir()
    second.save_checkpoint(signalled)
    os.utime(signalled, (time.time() + 9,) * 2)
    third = trainer(4)
    third.fit(Regression(), loader(), ckpt_path="last")
    assert third.ckpt_path == str(signalled)


def test_callbacks_that_are_added_or_taken_away_between_runs_count() -> None:
    class Counts(dt.Callback):
        def __init__(self) -> None:
            self.runs = 0

        def on_test_start(self, trainer, module):
            self.runs += 1

    first, second = Counts(), Counts()
    trainer = quiet(callbacks=first)
    trainer.test(Regression(), loader(4))
    trainer.callbacks.append(second)
    trainer.test(Regression(), loader(4))
    trainer.callbacks.remove(first)
    trainer.test(Regression(), loader(4))
    assert (first.runs, second.runs) == (2, 2)
