from __future__ import annotations

import pickle
from pathlib import Path

import pytest

import drivetrain as dt
from tests.loops.models import Regression, loader, quiet


class Notes(dt.Profiler):
    """Writes down what it is told."""

    def __init__(self, *given, **named) -> None:
        super().__init__(*given, **named)
        self.notes: list[str] = []
        self.seen: list[tuple] = []

    def start(self, action_name):
        self.notes.append(f"+{action_name}")

    def stop(self, action_name):
        self.notes.append(f"-{action_name}")

    def summary(self):
        return f"{len(self.notes)} notes"

    def setup(self, stage, local_rank=None, log_dir=None):
        super().setup(stage, local_rank, log_dir)
        self.seen.append(("setup", stage, local_rank))

    def teardown(self, stage):
        self.seen.append(("teardown", stage))


class Acts(Regression):
    def training_step(self, batch, batch_idx):
        with self.trainer.profiler.profile("mine"):
            return super().training_step(batch, batch_idx)

    def backward(self, loss):
        loss.backward()

    def on_train_start(self):
        pass


def test_a_run_tells_what_it_does_in_order() -> None:
    notes = Notes()
    quiet(max_steps=2, profiler=notes, callbacks=[dt.Timer()]).fit(Acts(), loader(), loader(4))
    steps = notes.notes[notes.notes.index("+run_training_batch") :]
    first = steps[: steps.index("-run_training_batch") + 1]
    strategy = "[Strategy]SingleRuntime"
    assert first == [
        "+run_training_batch",
        f"+{strategy}.training_step",
        "+mine",
        "-mine",
        f"-{strategy}.training_step",
        f"+{strategy}.backward",
        "+[Module]Acts.backward",
        "-[Module]Acts.backward",
        f"-{strategy}.backward",
        "+[Optimizer]AdamW.step",
        "-[Optimizer]AdamW.step",
        "-run_training_batch",
    ]
    assert notes.notes.count("+run_training_batch") == 2
    assert {
        "+run_training_epoch",
        "+load_dataloaders",
        "+[FitLoop].train_dataloader_next",
        f"+{strategy}.batch_to_device",
        "+[Module]Acts.configure_optimizers",
        "+[Module]Acts.on_train_start",
        "+[Callback]Timer.on_train_start",
        "+run_validation",
        "+[EvaluationLoop].validation_dataloader_next",
        f"+{strategy}.validation_step",
    } <= set(notes.notes)
    assert sorted(note[1:] for note in notes.notes if note[0] == "+") == sorted(
        note[1:] for note in notes.notes if note[0] == "-"
    )
    assert notes.seen == [("setup", "fit", 0), ("teardown", "fit")]


def test_manual_optimization_saving_and_the_other_verbs_are_seen_too(tmp_path) -> None:
    class Manual(Regression):
        def __init__(self):
            super().__init__()
            self.automatic_optimization = False

        def training_step(self, batch, batch_idx):
            optimizer = self.optimizers()
            optimizer.zero_grad()
            self.manual_backward(self.loss(batch))
            optimizer.step()

    notes = Notes()
    trainer = quiet(
        max_steps=1, profiler=notes, callbacks=[dt.ModelCheckpoint(tmp_path)], num_sanity_val_steps=1
    )
    trainer.fit(Manual(), loader(), loader(4))
    assert {
        "+[Optimizer]AdamW.step",
        "+save_checkpoint",
        "+run_sanity_check",
        "+[Strategy]SingleRuntime.backward",
    } <= set(notes.notes)
    for verb, actions in {
        "test": {"+run_test", "+[Strategy]SingleRuntime.test_step", "+[EvaluationLoop].test_dataloader_next"},
        "predict": {"+run_predict", "+[Strategy]SingleRuntime.predict_step"},
    }.items():
        notes.notes.clear()
        getattr(trainer, verb)(Regression(), loader(4))
        assert actions <= set(notes.notes)
    notes.notes.clear()
    trainer.save_checkpoint(tmp_path / "late.ckpt")
    assert notes.notes == []


def test_without_one_nothing_is_put_around_anything() -> None:
    class Looks(Regression):
        def on_train_start(self):
            seen.append(dict(vars(self.trainer.strategy)))

    seen: list[dict] = []
    trainer = quiet(max_steps=1)
    trainer.fit(Looks(), loader())
    assert "training_step" not in seen[0]
    assert type(trainer.profiler) is dt.PassThroughProfiler
    with trainer.profiler.profile("anything"):
        pass


def test_reports_go_to_a_file_of_the_rank_or_to_rank_0s_standard_error(tmp_path, capsys) -> None:
    logger = dt.CSVLogger(tmp_path)
    quiet(max_steps=1, profiler=Notes(filename="report"), logger=logger).fit(Regression(), loader())
    assert (Path(logger.log_dir) / "fit-report-0.txt").read_text().endswith(" notes\n")
    notes = Notes(tmp_path, "report")
    quiet(profiler=notes).test(Regression(), loader(4))
    quiet(profiler=notes).test(Regression(), loader(4))
    assert len((tmp_path / "test-report-0.txt").read_text().splitlines()) == 2
    assert capsys.readouterr().err == ""
    own = Notes()
    own.setup("fit", 1)
    own.describe()
    assert capsys.readouterr().err == ""
    own.setup("fit", 0)
    own.describe()
    assert capsys.readouterr().err == "0 notes\n"


def test_a_failing_run_is_reported_and_its_error_stays_the_error(capsys) -> None:
    class Fails(Regression):
        def training_step(self, batch, batch_idx):
            raise RuntimeError("boom")

    class Fragile(Notes):
        def summary(self):
            raise ValueError("no report")

    notes = Notes()
    with pytest.raises(RuntimeError, match="boom"):
        quiet(max_steps=1, profiler=notes).fit(Fails(), loader())
    assert " notes" in capsys.readouterr().err
    assert notes.seen[-1] == ("teardown", "fit")
    with pytest.raises(RuntimeError, match="boom"):
        quiet(max_steps=1, profiler=Fragile()).fit(Fails(), loader())
    with pytest.raises(ValueError, match="no report"):
        quiet(max_steps=1, profiler=Fragile()).fit(Regression(), loader())


def test_a_file_has_a_name_and_a_profiler_travels_without_the_module() -> None:
    with pytest.raises(dt.ProfilerError, match=r"profiler.bad-argument\] Notes\(filename=3\)"):
        Notes(filename=3)
    notes = Notes("here", "there")
    notes._module = lambda: 0
    assert vars(pickle.loads(pickle.dumps(notes)))["dirpath"] == "here"  # noqa: S301 - our own bytes
