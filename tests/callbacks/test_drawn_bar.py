from __future__ import annotations

import pytest

import drivetrain as dt
from drivetrain.callbacks.drawn_bar import DrawnBar
from tests.callbacks.screen import watched
from tests.callbacks.test_progress_bar import Shown
from tests.loops.models import loader, quiet


class Notes(DrawnBar):
    """Writes down what it is to draw; as often as it may unless told otherwise."""

    def __init__(self, refresh_rate: int = 1, *, leave: bool = False, period_s: float = 0.0) -> None:
        super().__init__(refresh_rate, leave=leave)
        self._period_s = period_s
        self.notes: list = []

    def _draw_new(self, kind):
        self.notes.append(("new", kind))

    def _draw_reset(self, kind, total, description):
        self.notes.append(("reset", kind, total, description))

    def _draw(self, kind, done, metrics):
        self.notes.append((kind, done, None if metrics is None else sorted(metrics)))

    def _draw_left(self, kind):
        self.notes.append(("left", kind))

    def _draw_closed(self, kind):
        self.notes.append(("closed", kind))


INF = float("inf")


def test_a_fit_opens_moves_and_closes_its_bars() -> None:
    bar = Notes(refresh_rate=4, leave=True)
    trainer = quiet(max_epochs=2, limit_train_batches=6, callbacks=[bar], num_sanity_val_steps=1)
    watched(lambda: trainer.fit(Shown(), loader(), loader(12)))
    epoch = [
        ("train", 4, ["loss"]),
        ("new", "validation"),
        ("reset", "validation", INF, "Validation"),
        ("reset", "validation", 3, "Validation DataLoader 0"),
        ("validation", 1, None),
        ("validation", 3, None),
        ("closed", "validation"),
        ("train", 4, ["loss"]),
        ("train", 6, ["loss"]),
        ("left", "train"),
    ]
    assert bar.notes == [
        ("new", "sanity"),
        ("reset", "sanity", INF, "Sanity Checking"),
        ("reset", "sanity", 1, "Sanity Checking DataLoader 0"),
        ("sanity", 1, None),
        ("sanity", 1, None),
        ("closed", "sanity"),
        ("new", "train"),
        ("reset", "train", 6, "Epoch 0/1"),
        ("reset", "train", 6, "Epoch 0/1"),
        *epoch,
        ("reset", "train", 6, "Epoch 1/1"),
        *epoch,
        ("closed", "train"),
    ]


def test_time_is_the_other_bound_and_values_are_read_no_more_often() -> None:
    class Reads(Notes):
        def get_metrics(self, trainer, module):
            self.reads = getattr(self, "reads", 0) + 1
            return super().get_metrics(trainer, module)

    bar = Reads(period_s=60.0)
    watched(lambda: quiet(max_epochs=1, callbacks=[bar]).fit(Shown(), loader()))
    assert [note[:2] for note in bar.notes if note[0] == "train"] == [("train", 1), ("train", 10)]
    assert bar.reads == 2


@pytest.mark.parametrize("verb", ["test", "predict", "validate"])
def test_the_other_verbs_have_theirs(verb: str) -> None:
    bar, kind = Notes(), {"validate": "validation"}.get(verb, verb)
    watched(lambda: getattr(quiet(callbacks=[bar]), verb)(Shown(), loader(8)))
    assert bar.notes[0] == ("new", kind)
    assert bar.notes[2][1:3] == (kind, 2)
    assert bar.notes[3:] == [(kind, 1, None), (kind, 2, None), (kind, 2, None), ("closed", kind)]


def test_it_closes_after_a_failure_and_draws_nothing_when_it_is_off() -> None:
    class Fails(Shown):
        def training_step(self, batch, batch_idx):
            raise RuntimeError("boom")

    bar = Notes()
    with pytest.raises(RuntimeError, match="boom"):
        watched(lambda: quiet(max_epochs=1, callbacks=[bar]).fit(Fails(), loader()))
    assert bar.notes[-1] == ("closed", "train")
    off = Notes(refresh_rate=0)
    watched(lambda: quiet(max_epochs=1, callbacks=[off]).fit(Shown(), loader()))
    assert off.notes == []
    assert off.is_disabled


def test_where_nobody_watches_there_is_a_line_an_epoch(capsys) -> None:
    bar = Notes()
    quiet(max_epochs=2, callbacks=[bar]).fit(Shown(), loader())
    assert bar.notes == []
    lines = capsys.readouterr().err.splitlines()
    assert [line[:25] for line in lines] == ["epoch 0  step 10  loss 0.", "epoch 1  step 20  loss 0."]


@pytest.mark.parametrize("kind", [dt.TQDMProgressBar, dt.RichProgressBar])
def test_wrong_arguments_are_refused(kind) -> None:
    for given in ({"refresh_rate": -1}, {"refresh_rate": True}, {"leave": 1}):
        with pytest.raises(dt.ModuleError, match=r"callback.bad-argument"):
            kind(**given)
