from __future__ import annotations

import json
import math
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import torch

import drivetrain as dt
from tests.callbacks.scripted import names
from tests.loops.models import Regression, loader, quiet


class Losses(Regression):
    """Has losses that are given, by step of the run."""

    def __init__(self, losses: list[float], as_dict: bool = False) -> None:
        super().__init__()
        self.losses, self.as_dict = losses, as_dict

    def training_step(self, batch, batch_idx):
        real = self.loss(batch)
        loss = real - real.detach() + self.losses[self.global_step]
        return {"loss": loss} if self.as_dict else loss


def spiked_at(
    losses: list[float], folder: Path, trainer: dict[str, Any] | None = None, **kwargs: Any
) -> int | None:
    """Return at which step a run stops; None where it comes to its end."""
    found = dt.SpikeDetection(exclude_batches_path=folder / "skip.json", **kwargs)
    run = quiet(max_epochs=2, max_steps=len(losses), callbacks=[found], **(trainer or {}))
    try:
        run.fit(Losses(losses), loader())
    except dt.SpikeError:
        return run.global_step - 1
    return None


def by_hand(losses: list[float], window: int, warmup: int, rtol: float) -> int | None:
    for step, loss in enumerate(losses):
        before = losses[max(0, step - window) : step]
        mean = sum(before) / max(len(before), 1)
        if step >= max(warmup, 1) and loss - mean >= rtol * abs(mean):
            return step
    return None


WAVE = [2 + math.sin(step) for step in range(20)]


@pytest.mark.parametrize("window", [1, 3, 10])
@pytest.mark.parametrize("warmup", [0, 1, 5])
@pytest.mark.parametrize("rtol", [0.2, 0.5, 2.0])
def test_it_stops_where_the_mean_of_a_window_says(
    tmp_path: Path, window: int, warmup: int, rtol: float
) -> None:
    losses = [*WAVE[:14], 9.0, 1.0]
    expected = by_hand(losses, window, warmup, rtol)
    assert expected is not None
    assert spiked_at(losses, tmp_path, window=window, warmup=warmup, rtol=rtol) == expected


@pytest.mark.parametrize(
    ("losses", "given", "step"),
    [
        ([1.0, 1.0, math.nan, 1.0], {}, 2),
        ([math.inf, 1.0], {}, 0),
        ([1.0, math.nan, 1.0, 9.0], {"finite_only": False}, 3),
        ([1.0, 1.5, 1.0], {"atol": 0.4, "rtol": None}, 1),
        ([1.0, 1.5, 1.0], {"atol": 0.6, "rtol": None}, None),
        ([1.0, 1.5, 1.0], {"atol": 0.6, "rtol": 0.1}, None),
        ([1.0, 1.5, 1.0], {"atol": 0.1, "rtol": 0.6}, None),
        ([-1.0, -0.9, 1.5], {}, 2),
        ([5.0, 5.0, 0.1], {}, None),
        ([5.0, 5.0, 0.1], {"mode": "max", "rtol": 0.5}, 2),
        ([5.0, 5.0, 50.0], {"mode": "max"}, None),
    ],
)
def test_what_a_spike_is(tmp_path: Path, losses: list[float], given: dict, step: int | None) -> None:
    assert spiked_at(losses, tmp_path, **given) == step


def test_the_batch_is_written_down_and_the_step_is_in_no_checkpoint(tmp_path: Path) -> None:
    saves = dt.ModelCheckpoint(tmp_path / "saved", every_n_train_steps=1)
    losses = [1.0] * 13
    losses[12] = 7.0
    for number in (1, 2):
        found = dt.SpikeDetection()
        trainer = quiet(max_epochs=2, callbacks=[saves, found], default_root_dir=tmp_path)
        with pytest.raises(dt.SpikeError, match=r"callback.spike.*jumped to 7 at batch 2") as caught:
            trainer.fit(Losses(losses, as_dict=True), loader())
        assert caught.value.batch_idx == 2
        assert deepcopy(caught.value).batch_idx == 2
        assert torch.load(saves.newest_model_path, weights_only=True)["global_step"] == 12
        entry = {"epoch": 1, "batch_idx": 2, "global_step": 13, "rank": 0, "loss": 7.0}
        assert found.bad_batches == [entry]
        assert json.loads((tmp_path / "skip_batches.json").read_text()) == [entry], number
    assert names(tmp_path) == ["saved", "skip_batches.json"]


def test_earlier_spikes_stay_in_the_file(tmp_path: Path) -> None:
    assert spiked_at([1.0, 1.0, 9.0], tmp_path) == 2
    assert spiked_at([1.0, 1.0, 1.0, 8.0], tmp_path) == 3
    assert [one["loss"] for one in json.loads((tmp_path / "skip.json").read_text())] == [9.0, 8.0]


def test_a_resumed_run_compares_with_the_losses_before(tmp_path: Path) -> None:
    losses = [1.0, 2.0, 3.0, 4.0, 5.0, 5.5, 1.0]
    given = {"window": 3, "warmup": 2, "rtol": 0.3, "exclude_batches_path": tmp_path / "skip.json"}
    expected = by_hand(losses, 3, 2, 0.3)
    for stop in range(1, expected + 1):
        saves = dt.ModelCheckpoint(tmp_path / str(stop), every_n_train_steps=1)
        quiet(max_steps=stop, callbacks=[saves, dt.SpikeDetection(**given)]).fit(Losses(losses), loader())
        again = quiet(max_steps=7, callbacks=[dt.SpikeDetection(**given)])
        with pytest.raises(dt.SpikeError):
            again.fit(Losses(losses), loader(), ckpt_path=saves.newest_model_path)
        assert again.global_step - 1 == expected


@pytest.mark.parametrize(
    "given",
    [
        {"mode": "up"},
        {"window": 0},
        {"warmup": -1},
        {"window": 2.5},
        {"atol": "1"},
        {"rtol": -1.0},
        {"rtol": math.nan},
        {"rtol": None},
        {"finite_only": "yes"},
    ],
)
def test_other_arguments_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(dt.ModuleError, match=r"callback.bad-argument.*SpikeDetection"):
        dt.SpikeDetection(**given)
