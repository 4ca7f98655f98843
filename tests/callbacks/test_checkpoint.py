from __future__ import annotations

import math
import os
import signal
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch

import drivetrain as dt
from drivetrain.callbacks import clock
from drivetrain.callbacks.callback import best_path, newest_path
from drivetrain.checkpoint_io.local import LocalCheckpointIO
from tests.callbacks.scripted import Scripted, names
from tests.loops.models import Regression, differing, loader, quiet


def test_the_newest_replaces_the_one_before_and_strangers_stay(tmp_path: Path) -> None:
    (tmp_path / "stranger.ckpt").write_text("of another run")
    saves = dt.ModelCheckpoint(tmp_path, every_n_train_steps=4, save_last=True)
    result = quiet(max_epochs=1, callbacks=[saves]).fit(Regression(), loader())
    assert names(tmp_path) == ["epoch=0-step=8.ckpt", "last.ckpt", "stranger.ckpt"]
    assert result.checkpoint_path == str(tmp_path / "last.ckpt")


def test_all_are_kept_on_request_and_named_by_what_was_logged(tmp_path: Path) -> None:
    saves = dt.ModelCheckpoint(tmp_path, "{epoch:02d}-{loss_epoch:.1f}", save_top_k=-1)
    quiet(max_epochs=2, callbacks=[saves]).fit(Regression(lr=0.0), loader())
    found = names(tmp_path)
    assert len(found) == 2
    assert found[1].startswith("epoch=01-loss_epoch=")


def test_the_default_saves_every_epoch_under_the_root(tmp_path: Path) -> None:
    trainer = quiet(max_epochs=2, enable_checkpointing=True, default_root_dir=tmp_path)
    result = trainer.fit(Regression(), loader())
    assert names(tmp_path / "checkpoints") == ["epoch=1-step=20.ckpt"]
    assert trainer.fit(Regression(), loader(), ckpt_path="last").steps_here == 0
    assert result.checkpoint_path.endswith("epoch=1-step=20.ckpt")


@pytest.mark.parametrize("epoch", [0, 1])
def test_a_run_resumed_from_an_epochs_end_equals_the_uninterrupted_one(tmp_path: Path, epoch: int) -> None:
    def run(folder: str, path: Path | None) -> dict:
        torch.manual_seed(0 if path is None else 5)
        saves = dt.ModelCheckpoint(tmp_path / folder, save_top_k=-1)
        trainer, module = quiet(max_epochs=3, callbacks=[saves]), Stepped(dropout=0.5)
        torch.manual_seed(0 if path is None else 5)
        trainer.fit(module, loader(shuffle=True), loader(5, 2), ckpt_path=path)
        trainer.save_checkpoint(tmp_path / "end.ckpt")
        found = torch.load(tmp_path / "end.ckpt", weights_only=True)
        del found["callbacks"]
        return found

    whole = run("a", None)
    assert not differing(whole, run("b", tmp_path / "a" / f"epoch={epoch}-step={10 * (epoch + 1)}.ckpt"))


class Stepped(Regression):
    def configure_optimizers(self):
        optimizer = super().configure_optimizers()
        watch = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0)
        return [optimizer], [
            torch.optim.lr_scheduler.StepLR(optimizer, 1),
            {"scheduler": watch, "monitor": "val"},
        ]


def fit(saves: dt.ModelCheckpoint, module: dt.Module, **kwargs: Any) -> dt.FitResult:
    """Train on 10 batches an epoch, and validate on 2."""
    path = kwargs.pop("ckpt_path", None)
    return quiet(**{"max_epochs": 5, "callbacks": [saves], **kwargs}).fit(
        module, loader(), loader(5), ckpt_path=path
    )


@pytest.mark.parametrize(("mode", "best", "kth"), [("min", [4, 1], 1.0), ("max", [0, 2], 2.0)])
def test_the_best_by_a_logged_value_stay(tmp_path: Path, mode: str, best: list[int], kth: float) -> None:
    saves = dt.ModelCheckpoint(tmp_path, monitor="val", mode=mode, save_top_k=2)
    fit(saves, Scripted(val=[3.0, 1.0, 2.0, math.nan, 0.5]))
    path = {epoch: str(tmp_path / f"epoch={epoch}-step={10 * epoch + 10}.ckpt") for epoch in range(5)}
    assert names(tmp_path) == sorted(Path(path[epoch]).name for epoch in best)
    assert saves.best_model_path == path[best[0]] == best_path([saves])
    assert saves.kth_best_model_path == path[best[1]]
    assert saves.kth_value == kth
    assert saves.best_model_score == {"min": 0.5, "max": 3.0}[mode]
    assert {name: float(score) for name, score in saves.best_k_models.items()}.keys() == {
        path[e] for e in best
    }
    assert saves.current_score == 0.5
    assert torch.load(path[best[0]], weights_only=True)["epoch"] == best[0]


def test_only_nan_has_no_best(tmp_path: Path) -> None:
    saves = dt.ModelCheckpoint(tmp_path, monitor="val", save_top_k=2)
    fit(saves, Scripted(val=[math.nan] * 5))
    assert names(tmp_path) == ["epoch=0-step=10.ckpt", "epoch=1-step=20.ckpt"]
    assert (saves.best_model_path, saves.best_model_score, best_path([saves])) == ("", None, None)
    assert math.isnan(saves.current_score)


def test_without_a_monitor_the_newest_so_many_stay(tmp_path: Path) -> None:
    saves = dt.ModelCheckpoint(tmp_path, save_top_k=3)
    fit(saves, Regression())
    assert names(tmp_path) == [f"epoch={epoch}-step={10 * epoch + 10}.ckpt" for epoch in (2, 3, 4)]
    assert saves.best_model_path == saves.last_model_path == str(tmp_path / "epoch=4-step=50.ckpt")
    assert (saves.best_k_models, saves.best_model_score, saves.current_score) == ({}, None, None)
    assert saves.kth_value == math.inf


def test_no_weights_are_scored_with_the_value_of_others(tmp_path: Path) -> None:
    """Validation runs in every second epoch; at the other epochs' ends its value is an old one."""
    saves = dt.ModelCheckpoint(tmp_path, monitor="val", save_top_k=-1)
    fit(saves, Scripted(val=[9.0, 3.0, 9.0, 2.0, 9.0]), check_val_every_n_epoch=2)
    assert {Path(path).name: float(score) for path, score in saves.best_k_models.items()} == {
        "epoch=1-step=20.ckpt": 3.0,
        "epoch=3-step=40.ckpt": 2.0,
    }


def test_a_save_that_is_due_within_an_epoch_waits_for_the_validation(tmp_path: Path) -> None:
    saves = dt.ModelCheckpoint(tmp_path, monitor="val", save_top_k=-1, every_n_train_steps=4, save_last=True)
    lasts: list[int] = []

    class Looks(dt.Callback):
        is_last = True

        def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
            if (tmp_path / "last.ckpt").exists():
                lasts.append(torch.load(tmp_path / "last.ckpt", weights_only=True)["global_step"])

    fit(saves, Scripted(val=[3.0, 2.0]), max_epochs=2, callbacks=[saves, Looks()])
    assert {Path(path).name: float(score) for path, score in saves.best_k_models.items()} == {
        "epoch=0-step=10.ckpt": 3.0,
        "epoch=1-step=20.ckpt": 2.0,
    }
    assert lasts == [4] * 4 + [8] * 3 + [10] + [12] * 4 + [16] * 4 + [20]  # steps 4 to 20
    assert torch.load(tmp_path / "last.ckpt", weights_only=True)["global_step"] == 20


def test_a_value_of_training_steps_is_there_when_the_save_is_due(tmp_path: Path) -> None:
    saves = dt.ModelCheckpoint(tmp_path, monitor="loss", save_top_k=-1, every_n_train_steps=4)
    seen: dict[int, float] = {}

    class Looks(dt.Callback):
        def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
            seen[trainer.global_step] = outputs.item()

    fit(saves, Regression(), max_epochs=2, callbacks=[saves, Looks()])
    found = {int(path.split("step=")[1][:-5]): float(score) for path, score in saves.best_k_models.items()}
    assert found == {step: seen[step] for step in (4, 8, 12, 16, 20)}


def test_each_validation_or_each_epoch_on_request(tmp_path: Path) -> None:
    moments: dict[str, list[str]] = {}
    for name, at_epoch_end in (("validation", False), ("epoch", True)):
        saves = dt.ModelCheckpoint(
            tmp_path / name, monitor="acc", mode="max", save_on_train_epoch_end=at_epoch_end, save_top_k=-1
        )
        # Training's epoch value is not there when validation ends, so a save waits for it.
        fit(saves, Scripted(val=[1.0] * 2, acc=[0.5, 0.6]), max_epochs=2)
        moments[name] = names(tmp_path / name)
        assert float(saves.best_model_score) == pytest.approx(0.6)
    assert moments["validation"] == moments["epoch"] == ["epoch=0-step=10.ckpt", "epoch=1-step=20.ckpt"]
    saves = dt.ModelCheckpoint(tmp_path / "val", monitor="val", save_on_train_epoch_end=False)
    fit(saves, Scripted(val=[1.0, 2.0]), max_epochs=2)
    assert names(tmp_path / "val") == ["epoch=0-step=10.ckpt"]


class Quarters(dt.Callback):
    """Lets validation seem to lie within epochs: its end comes again after some steps."""

    def __init__(self, saves: dt.ModelCheckpoint, every: int) -> None:
        self.saves, self.every = saves, every

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        if (batch_idx + 1) % self.every == 0:
            trainer._context.results._metrics["val"] = torch.tensor(1.0 / trainer.global_step)
            self.saves.on_validation_end(trainer, module)


def test_validations_within_an_epoch_are_each_a_moment(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(dt.Trainer, "val_check_interval", 0.3)
    for monitor, expected in (("val", [3, 6, 9, 13, 16, 19]), (None, [3, 6, 9, 10, 13, 16, 19, 20])):
        folder = tmp_path / str(monitor)
        saves = dt.ModelCheckpoint(folder, "{step}", monitor=monitor, save_top_k=-1)
        trainer = quiet(max_epochs=2, callbacks=[saves, Quarters(saves, 3)])
        trainer.fit(Scripted(), loader())
        assert sorted(int(name[5:-5]) for name in names(folder)) == expected


@pytest.mark.parametrize("every", [1, 3])
def test_a_monitor_that_nothing_logged_is_refused_when_it_could_have_been(tmp_path: Path, every: int) -> None:
    saves = dt.ModelCheckpoint(tmp_path, monitor="vall", save_last=every == 1)
    with pytest.raises(dt.ModuleError, match=r"callback.monitor.*watches 'vall'") as caught:
        fit(saves, Scripted(val=[1.0] * 5), check_val_every_n_epoch=every)
    assert caught.value.values["epoch"] == every - 1
    assert caught.value.hint == "did you mean monitor='val'?"
    assert "loss_epoch" in caught.value.values["logged"]
    assert names(tmp_path) == []


def test_a_run_that_ends_before_its_first_validation_says_so(tmp_path: Path, capsys) -> None:
    saves = dt.ModelCheckpoint(tmp_path, monitor="val")
    fit(saves, Scripted(val=[1.0] * 5), check_val_every_n_epoch=3, max_epochs=1)
    assert "ended before anything logged 'val'" in capsys.readouterr().err
    assert names(tmp_path) == []


def test_a_file_goes_only_when_the_next_is_whole(tmp_path: Path, monkeypatch) -> None:
    remove, at_removal = LocalCheckpointIO.remove, []

    def watched(self, path):
        others = [one for one in tmp_path.iterdir() if str(one) != str(path)]
        at_removal.append([torch.load(one, weights_only=True)["global_step"] for one in others])
        remove(self, path)

    monkeypatch.setattr(LocalCheckpointIO, "remove", watched)
    fit(dt.ModelCheckpoint(tmp_path), Regression(), max_epochs=3)
    assert at_removal == [[20], [30]]

    def fails(*_args, **_kwargs):
        raise OSError(28, "No space left on device")

    class Breaks(dt.Callback):
        def on_train_epoch_end(self, trainer, module):
            if trainer.current_epoch == 1:
                monkeypatch.setattr(torch, "save", fails)

    saves = dt.ModelCheckpoint(tmp_path / "full")
    with pytest.raises(dt.CheckpointError, match=r"No space left"):
        fit(saves, Regression(), callbacks=[saves, Breaks()])
    assert names(tmp_path / "full") == ["epoch=0-step=10.ckpt"]
    assert newest_path([saves]) == saves.best_model_path == str(tmp_path / "full" / "epoch=0-step=10.ckpt")


def test_two_runs_in_one_folder_leave_each_others_files(tmp_path: Path) -> None:
    def run(val: list[float], **kwargs: Any) -> dt.ModelCheckpoint:
        saves = dt.ModelCheckpoint(tmp_path, "{epoch}", monitor="val", save_last=True, **kwargs)
        fit(saves, Scripted(val=val), max_epochs=len(val))
        return saves

    run([1.0, 2.0])
    of_first = {name: (tmp_path / name).read_bytes() for name in names(tmp_path)}
    assert sorted(of_first) == ["epoch=0.ckpt", "last.ckpt"]
    second = run([3.0, 2.0, 1.0])
    assert names(tmp_path) == ["epoch=0.ckpt", "epoch=2.ckpt", "last-v1.ckpt", "last.ckpt"]
    assert second.last_model_path == str(tmp_path / "last-v1.ckpt")
    assert all((tmp_path / name).read_bytes() == content for name, content in of_first.items())
    run([0.0], enable_version_counter=False)
    assert names(tmp_path) == ["epoch=0.ckpt", "epoch=2.ckpt", "last-v1.ckpt", "last.ckpt"]
    assert (tmp_path / "epoch=0.ckpt").read_bytes() != of_first["epoch=0.ckpt"]


def test_a_fit_that_begins_anew_owns_nothing_of_the_one_before(tmp_path: Path) -> None:
    saves = dt.ModelCheckpoint(tmp_path)
    trainer = quiet(max_epochs=2, callbacks=[saves])
    trainer.fit(Regression(), loader())
    trainer.fit(Regression(), loader())
    assert names(tmp_path) == ["epoch=1-step=20-v1.ckpt", "epoch=1-step=20.ckpt"]


VAL = [5.0, 3.0, 4.0, 2.0, 2.5, 1.0]


def attributes(saves: dt.ModelCheckpoint) -> dict[str, Any]:
    """Return what users read, with paths without their folder."""
    scores = {Path(path).name: float(score) for path, score in saves.best_k_models.items()}
    values = {
        name: float(getattr(saves, name)) for name in ("best_model_score", "kth_value", "current_score")
    }
    paths = ("best_model_path", "kth_best_model_path", "last_model_path", "newest_model_path")
    return {"scores": scores, **values, **{name: Path(getattr(saves, name)).name for name in paths}}


@pytest.mark.parametrize("stop", [1, 2, 3, 4, 5])
def test_a_resumed_run_keeps_and_removes_like_the_uninterrupted_one(tmp_path: Path, stop: int) -> None:
    def made(folder: str) -> dt.ModelCheckpoint:
        return dt.ModelCheckpoint(tmp_path / folder, monitor="val", save_top_k=2, save_last=True)

    whole = made("whole")
    fit(whole, Scripted(val=VAL), max_epochs=6)
    first, second = made("parts"), made("parts")
    fit(first, Scripted(val=VAL), max_epochs=stop)
    (tmp_path / "parts" / "epoch=5-step=60.ckpt").write_text("of another run")
    fit(second, Scripted(val=VAL), max_epochs=6, ckpt_path=first.last_model_path)
    mine, theirs = attributes(second), attributes(whole)
    assert mine.pop("best_model_path") == "epoch=5-step=60-v1.ckpt"
    assert theirs.pop("best_model_path") == "epoch=5-step=60.ckpt"
    assert list(mine.pop("scores").values()) == list(theirs.pop("scores").values())
    assert mine.pop("newest_model_path") == "epoch=5-step=60-v1.ckpt"
    del theirs["newest_model_path"]
    assert mine == theirs
    kept = ["epoch=3-step=40.ckpt", "epoch=5-step=60-v1.ckpt", "epoch=5-step=60.ckpt", "last.ckpt"]
    assert names(tmp_path / "parts") == kept
    assert (tmp_path / "parts" / "epoch=5-step=60.ckpt").read_text() == "of another run"


@pytest.mark.parametrize("is_taken", [False, True])
def test_what_a_killed_run_had_not_removed_goes_if_it_is_still_its_own(
    tmp_path: Path, monkeypatch, is_taken: bool
) -> None:
    def killed(self, path):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(LocalCheckpointIO, "remove", killed)
        with pytest.raises(KeyboardInterrupt):
            fit(dt.ModelCheckpoint(tmp_path), Regression())
    old, new = tmp_path / "epoch=0-step=10.ckpt", tmp_path / "epoch=1-step=20.ckpt"
    assert names(tmp_path) == [old.name, new.name]
    if is_taken:
        old.unlink()
        old.write_text("of another run, which found the name free")
    fit(dt.ModelCheckpoint(tmp_path), Regression(), max_epochs=3, ckpt_path=new)
    assert names(tmp_path) == [old.name] * is_taken + ["epoch=2-step=30.ckpt"]


def test_a_resume_into_another_folder_leaves_the_old_one_alone(tmp_path: Path) -> None:
    def made(folder: str) -> dt.ModelCheckpoint:
        return dt.ModelCheckpoint(tmp_path / folder, monitor="val")

    first, second = made("old"), made("new")
    fit(first, Scripted(val=VAL), max_epochs=2)
    fit(second, Scripted(val=VAL), max_epochs=3, ckpt_path=first.best_model_path)
    assert second.best_model_path == first.best_model_path
    assert not (tmp_path / "new").exists()
    fit(second, Scripted(val=VAL), max_epochs=4, ckpt_path=first.best_model_path)
    assert second.best_model_path == str(tmp_path / "new" / "epoch=3-step=40.ckpt")
    assert names(tmp_path / "old") == ["epoch=1-step=20.ckpt"]


def test_last_is_written_each_time_and_may_be_a_link(tmp_path: Path) -> None:
    for how in (True, "link"):
        folder = tmp_path / str(how)
        saves = dt.ModelCheckpoint(folder, monitor="val", save_last=how)
        fit(saves, Scripted(val=[2.0, 1.0]), max_epochs=2)
        assert (folder / "last.ckpt").is_symlink() is (how == "link")
        assert torch.load(folder / "last.ckpt", weights_only=True)["global_step"] == 20
        # What did not make it among the best is still the last: then a link would have no target.
        fit(saves, Scripted(val=[2.0, 1.0, 3.0]), max_epochs=3, ckpt_path=saves.last_model_path)
        assert not (folder / "last.ckpt").is_symlink()
        assert torch.load(folder / "last.ckpt", weights_only=True)["global_step"] == 30
        assert names(folder) == ["epoch=1-step=20.ckpt", "last.ckpt"]
        assert saves.last_model_path == saves.newest_model_path == str(folder / "last.ckpt")
        assert newest_path([saves]) == saves.last_model_path
    saves = dt.ModelCheckpoint("memory://somewhere", save_last="link")
    with pytest.raises(dt.ModuleError, match=r"callback.bad-argument.*save_last"):
        fit(saves, Regression())


def test_names_are_made_of_class_attributes_that_users_set(tmp_path: Path) -> None:
    saves = dt.ModelCheckpoint(tmp_path, "{epoch}-{val:.1f}", monitor="val", save_last=True, save_top_k=-1)
    saves.CHECKPOINT_NAME_LAST = "{step}-last"
    saves.CHECKPOINT_JOIN_CHAR, saves.CHECKPOINT_EQUALS_CHAR, saves.FILE_EXTENSION = "_", "~", ".pt"
    saves.STARTING_VERSION = 5
    (tmp_path / "epoch~1-val~1.0.pt").write_text("stranger")
    fit(saves, Scripted(val=[2.0, 1.0]), max_epochs=2)
    expected = ["epoch~0-val~2.0.pt", "epoch~1-val~1.0.pt", "epoch~1-val~1.0_v5.pt", "step~20-last.pt"]
    assert names(tmp_path) == expected
    plain = dt.ModelCheckpoint(tmp_path, "{epoch}-{val:.1f}", auto_insert_metric_name=False)
    metrics = {"epoch": 3, "val": torch.tensor(0.25)}
    assert plain.format_checkpoint_name(metrics) == str(tmp_path / "3-0.2.ckpt")
    assert dt.ModelCheckpoint().format_checkpoint_name(metrics, "{val}", 2, "best") == "best-val=0.25-v2.ckpt"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"every_n_train_steps": "7 steps"}, [7, 14]),
        ({"every_n_train_steps": "0.5 epochs"}, [5, 10, 15, 20]),
        ({"every_n_epochs": "2 epochs"}, [20]),
        ({"every_n_epochs": 2, "every_n_train_steps": 8}, [8, 16, 20]),
        ({"every_n_train_steps": "30 samples"}, [8, 16]),
        ({"train_time_interval": timedelta(seconds=6)}, [6, 12, 18]),
        ({"train_time_interval": "0.1 min", "every_n_epochs": 0}, [6, 12, 18]),
    ],
)
def test_intervals_have_units(
    tmp_path: Path, monkeypatch, given: dict[str, Any], expected: list[int]
) -> None:
    ticks = iter(range(10_000))
    monkeypatch.setattr(clock, "time", type("T", (), {"monotonic": lambda: float(next(ticks))}))
    saves = dt.ModelCheckpoint(tmp_path, "{step}", save_top_k=-1, **given)
    monkeypatch.setattr(
        clock.SharedClock, "restart", lambda self: vars(self).update(_began=float(next(ticks)))
    )
    fit(saves, Regression(), max_epochs=2)
    assert sorted(int(name[5:-5]) for name in names(tmp_path)) == expected


def test_a_failing_run_saves_on_request_without_touching_what_it_had(tmp_path: Path, capsys) -> None:
    class Fails(Regression):
        def training_step(self, batch, batch_idx):
            if self.global_step == 15:
                raise ValueError("bad label")
            return super().training_step(batch, batch_idx)

    saves = dt.ModelCheckpoint(tmp_path, save_on_exception=True)
    with pytest.raises(ValueError, match="bad label"):
        fit(saves, Fails())
    assert names(tmp_path) == ["epoch=0-step=10.ckpt", "epoch=1-step=15.ckpt"]
    assert "ValueError at step 15: saved" in capsys.readouterr().err
    assert newest_path([saves]) == str(tmp_path / "epoch=1-step=15.ckpt")
    with pytest.warns(dt.DrivetrainWarning, match=r"checkpoint.inexact"):
        result = fit(
            dt.ModelCheckpoint(tmp_path / "b"), Regression(), max_epochs=2, ckpt_path=newest_path([saves])
        )
    assert (result.steps_here, result.samples) == (5, 78)


def test_weights_only_a_remote_folder_and_lines_on_request(capsys) -> None:
    saves = dt.ModelCheckpoint(
        "memory://runs/one", monitor="val", save_weights_only=True, verbose=True, save_top_k=1, save_last=True
    )
    fit(saves, Scripted(val=[2.0, 1.0]), max_epochs=2)
    found = LocalCheckpointIO().load(saves.best_model_path)
    assert saves.best_model_path == "memory://runs/one/epoch=1-step=20.ckpt"
    assert "state_dict" in found
    assert "optimizer_states" not in found
    with pytest.raises(dt.CheckpointError, match=r"checkpoint.missing"):
        LocalCheckpointIO().load("memory://runs/one/epoch=0-step=10.ckpt")
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("epoch 0, step 10, val=2: saved memory://runs/one/epoch=0-step=10.ckpt and ")
    assert len(lines) == 2


def test_scores_are_written_as_yaml(tmp_path: Path) -> None:
    import yaml

    saves = dt.ModelCheckpoint(tmp_path, monitor="val", save_top_k=-1)
    fit(saves, Scripted(val=[0.1, math.nan, -math.inf]), max_epochs=3)
    saves.to_yaml()
    found = yaml.safe_load((tmp_path / "best_k_models.yaml").read_text())
    assert {Path(path).name[:7]: repr(score) for path, score in found.items()} == {
        "epoch=0": "0.1",
        "epoch=1": "nan",
        "epoch=2": "-inf",
    }
    dt.ModelCheckpoint().to_yaml(tmp_path / "none.yaml")
    assert yaml.safe_load((tmp_path / "none.yaml").read_text()) == {}


def test_a_validation_by_itself_saves_nothing(tmp_path: Path) -> None:
    saves = dt.ModelCheckpoint(tmp_path, monitor="val", save_on_train_epoch_end=False)
    trainer = quiet(max_epochs=1, callbacks=[saves])
    trainer.fit(Scripted(val=[1.0]), loader(), loader(5))
    before = names(tmp_path)
    trainer.validate(Scripted(val=[0.5, 0.0]), loader(5))
    assert names(tmp_path) == before == ["epoch=0-step=10.ckpt"]


def test_without_an_interval_within_epochs_no_step_calls_it() -> None:
    from drivetrain.events import Dispatcher

    class Mine(dt.ModelCheckpoint):
        def on_train_batch_end(self, *args):
            super().on_train_batch_end(*args)

    for saves, num_calls in (
        (dt.ModelCheckpoint(), 0),
        (dt.ModelCheckpoint(every_n_epochs=2), 0),
        (dt.ModelCheckpoint(every_n_train_steps=2), 1),
        (Mine(), 1),
    ):
        calls = Dispatcher(None, dt.Module(), [saves]).calls("on_train_batch_end")
        assert len(calls) == num_calls


@pytest.mark.parametrize(
    "given",
    [
        {"every_n_epochs": 0},
        {"every_n_train_steps": 1.5},
        {"train_time_interval": "1e6 tokens"},
        {"save_top_k": -2},
        {"save_top_k": True},
        {"save_last": "yes"},
        {"mode": "auto"},
        {"monitor": ""},
        {"verbose": 1},
        {"filename": "{epoch"},
        {"save_on_train_epoch_end": "yes"},
        {"train_time_interval": 30},
    ],
)
def test_other_arguments_are_refused(given: dict) -> None:
    with pytest.raises(dt.ModuleError, match=r"callback.bad-argument"):
        dt.ModelCheckpoint(**given)


def test_two_of_one_state_key_are_refused() -> None:
    twice = [dt.ModelCheckpoint("a"), dt.ModelCheckpoint("b")]
    with pytest.raises(dt.ModuleError, match=r"callback.duplicate-key"):
        quiet(callbacks=twice).fit(Regression(), loader())
    assert dt.ModelCheckpoint(monitor="a").state_key != dt.ModelCheckpoint(monitor="b").state_key


class Fails(Regression):
    def on_train_batch_end(self, *_: Any) -> None:
        raise KeyError("here")


def test_a_fast_run_leaves_no_file_and_still_tries_the_monitor(tmp_path: Path) -> None:
    def callbacks(monitor: str = "val") -> list[dt.Callback]:
        return [
            dt.ModelCheckpoint(tmp_path / "a", monitor=monitor, save_last=True, save_on_exception=True),
            dt.OnExceptionCheckpoint(tmp_path / "b"),
        ]

    given = {"fast_dev_run": True, "default_root_dir": tmp_path}
    trainer = quiet(callbacks=callbacks(), **given)
    trainer.fit(Regression(), loader(8), loader(8))
    assert trainer.checkpoint_callback.best_model_path == ""
    with pytest.raises(KeyError, match="here"):
        quiet(callbacks=callbacks(), **given).fit(Fails(), loader(8), loader(8))
    with pytest.raises(dt.ModuleError, match="nothing_logged"):
        quiet(callbacks=callbacks("nothing_logged"), **given).fit(Regression(), loader(8), loader(8))
    assert not [*tmp_path.iterdir()]


class AsksFor(dt.Callback):
    """Asks to leave within the second epoch."""

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        if trainer.global_step == 13:
            os.kill(os.getpid(), signal.SIGUSR1)


@pytest.mark.parametrize(
    "interval",
    [{"train_time_interval": timedelta(hours=1)}, {"every_n_train_steps": 100}, {"every_n_epochs": 5}],
)
@pytest.mark.parametrize("monitor", [None, "loss"])
def test_last_is_what_the_fit_came_to_whatever_the_interval(
    tmp_path: Path, interval: dict[str, Any], monitor: str | None
) -> None:
    saves = dt.ModelCheckpoint(tmp_path / "a", monitor=monitor, save_last=True, **interval)
    trainer = quiet(max_epochs=1, callbacks=[saves])
    result = trainer.fit(Regression(), loader())
    assert names(tmp_path / "a") == ["last.ckpt"]
    assert result.checkpoint_path == saves.last_model_path
    more = quiet(max_epochs=2)
    assert more.fit(Regression(), loader(), ckpt_path=saves.last_model_path).steps_here == 10


def test_a_resumed_fit_with_nothing_left_writes_last_once(tmp_path: Path) -> None:
    def fit(path: str | None) -> str:
        saves = dt.ModelCheckpoint(tmp_path, every_n_epochs=5, save_last=True)
        quiet(max_epochs=1, callbacks=[saves]).fit(Regression(), loader(), ckpt_path=path)
        return saves.last_model_path

    written = fit(None)
    before = Path(written).stat().st_mtime_ns
    assert fit(written) == written
    assert Path(written).stat().st_mtime_ns == before
    assert names(tmp_path) == ["last.ckpt"]


def test_a_fit_that_leaves_for_a_signal_saves_itself_alone(tmp_path: Path) -> None:
    saves = dt.ModelCheckpoint(tmp_path / "a", every_n_train_steps=4, save_last=True)
    with pytest.raises(SystemExit):
        quiet(max_epochs=2, callbacks=[AsksFor(), saves], default_root_dir=tmp_path).fit(
            Regression(), loader()
        )
    kept = torch.load(tmp_path / "a" / "last.ckpt", weights_only=True)
    assert kept["global_step"] == 12
    assert names(tmp_path / "checkpoints") == ["signal.ckpt"]
