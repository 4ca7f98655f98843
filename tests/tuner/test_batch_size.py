from __future__ import annotations

import gc
import random
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

import drivetrain as dt
from drivetrain.tuner.batch_size import Outcome, SizeSearch, Trial, narrow
from tests.loops.models import Regression, data, loader, quiet
from tests.tuner.sized import Sized, SizedData, rank


def room_for(limit: int, tried: list[int], most: int | None = None) -> Callable[[int], Outcome]:
    def attempt(size: int) -> Outcome:
        tried.append(size)
        return Outcome(min(size, most or size) <= limit, most, (size,))

    return attempt


@pytest.mark.parametrize(
    ("told", "limit", "most", "sizes", "found"),
    [
        ({}, 100, None, [2, 4, 8, 16, 32, 64, 128], 64),
        ({"init_val": 3}, 100, None, [3, 6, 12, 24, 48, 96, 192], 96),
        ({"max_val": 50}, 100, None, [2, 4, 8, 16, 32, 50], 50),
        ({"max_trials": 3}, 100, None, [2, 4, 8], 8),
        ({"max_val": None}, 9000, None, [2**n for n in range(1, 15)], 8192),
        ({}, 100, 39, [2, 4, 8, 16, 32, 39], 39),  # the data ends first
        ({"init_val": 64}, 100, 39, [64], 39),
        (
            {"mode": "binsearch", "margin": 0},
            100,
            None,
            [2, 4, 8, 16, 32, 64, 128, 96, 112, 104, 100, 102, 101],
            100,
        ),
        ({"mode": "binsearch"}, 100, None, [2, 4, 8, 16, 32, 64, 128, 96, 112, 104, 100, 102, 101], 95),
        (
            {"mode": "binsearch"},
            100,
            39,
            [2, 4, 8, 16, 32, 39],
            39,
        ),  # no edge was found: nothing is taken off
        (
            {"mode": "binsearch", "max_trials": 9, "margin": 0.5},
            100,
            None,
            [2, 4, 8, 16, 32, 64, 128, 96, 112],
            48,
        ),
        ({"mode": "binsearch", "init_val": 1}, 1, None, [1, 2], 1),  # not 0
    ],
)
def test_the_sizes_that_are_tried(
    told: dict[str, Any], limit: int, most: int | None, sizes: list[int], found: int
) -> None:
    tried: list[int] = []
    assert narrow(room_for(limit, tried, most), SizeSearch(**told)) == found
    assert tried == sizes


def test_the_first_size_has_to_fit() -> None:
    with pytest.raises(dt.TrainerError, match=r"first batch size, init_val=2(.|\n)*smaller init_val"):
        narrow(room_for(1, []), SizeSearch())


def test_memory_that_ends_on_one_rank_is_found_by_all(tmp_path: Path) -> None:
    model = Sized({0: 100}, str(tmp_path / "log"))
    assert dt.Tuner(quiet()).scale_batch_size(model, init_val=8) == 64
    assert model.batch_size == 64
    tried = [int(line.split()[1]) for line in (tmp_path / "log").read_text().splitlines()]
    assert tried == [8] * 3 + [16] * 3 + [32] * 3 + [64] * 3 + [128]


@pytest.mark.ranks
@pytest.mark.parametrize("which", [0, 1])
def test_an_out_of_memory_on_one_rank_counts_for_all_and_nobody_waits(tmp_path: Path, which: int) -> None:
    model = Sized({which: 100}, str(tmp_path / "log"))
    started = time.monotonic()
    found = dt.Tuner(quiet(devices=2, strategy="ddp")).scale_batch_size(model, mode="binsearch", margin=0)
    assert time.monotonic() - started < 20
    assert (found, model.batch_size) == (100, 100)
    tried = [line.split() for line in (tmp_path / "log").read_text().splitlines()]
    sizes = {name: list(dict.fromkeys(size for one, size in tried if one == name)) for name in ("0", "1")}
    assert (
        sizes["0"]
        == sizes["1"]
        == [str(size) for size in (2, 4, 8, 16, 32, 64, 128, 96, 112, 104, 100, 102, 101)]
    )


@pytest.mark.ranks
def test_what_fails_on_one_rank_is_raised_as_it_is() -> None:
    class Failing(Sized):
        def loss(self, batch: Any) -> torch.Tensor:
            if len(batch[0]) == 8 and rank() == 1:
                message = "size mismatch"
                raise RuntimeError(message)
            return Regression.loss(self, batch)

    started = time.monotonic()
    with pytest.raises(dt.RankFailure, match=r"rank 1(.|\n)*RuntimeError: size mismatch"):
        dt.Tuner(quiet(devices=2, strategy="ddp")).scale_batch_size(Failing())
    assert time.monotonic() - started < 20


@pytest.mark.parametrize("method", ["fit", "validate", "test", "predict"])
def test_every_verb_has_its_size(method: str) -> None:
    model = Sized({0: 40})
    assert dt.Tuner(quiet()).scale_batch_size(model, method=method) == 32


def test_the_search_leaves_everything_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    class Drawing(Sized):
        def on_train_batch_start(self, batch: Any, batch_idx: int) -> None:
            random.random()
            torch.rand(1)
            self.logger.experiment.add_scalar("seen", 1)
            self.trainer.save_checkpoint(tmp_path / "own.ckpt")

    for rooms, raises in (({0: 20}, None), ({0: 1}, dt.TrainerError)):
        model = Drawing(rooms)
        saves = dt.ModelCheckpoint(tmp_path / "never")
        trainer = quiet(max_epochs=1, logger=True, callbacks=[saves, dt.OnExceptionCheckpoint(tmp_path)])
        before = [one.detach().clone() for one in model.parameters()]
        states = (torch.get_rng_state(), random.getstate())
        if raises is None:
            assert dt.Tuner(trainer).scale_batch_size(model) == 16
        else:
            with pytest.raises(raises):
                dt.Tuner(trainer).scale_batch_size(model)
            assert model.batch_size == 3
        assert torch.equal(torch.get_rng_state(), states[0])
        assert random.getstate() == states[1]
        assert all(torch.equal(one, other) for one, other in zip(before, model.parameters(), strict=True))
        assert all(one.grad is None for one in model.parameters())
        assert (trainer.global_step, trainer.should_stop, list(tmp_path.iterdir())) == (0, False, [])


@pytest.mark.ranks
@pytest.mark.parametrize("devices", [1, 2])
def test_batches_grow_no_longer_than_the_data(devices: int) -> None:
    model = Sized(num_samples=39)
    trainer = quiet(devices=devices, strategy="ddp" if devices > 1 else "auto")
    assert dt.Tuner(trainer).scale_batch_size(model) == {1: 39, 2: 20}[devices]


def test_a_sampler_says_how_many_samples_there_are() -> None:
    class Sampled(Sized):
        def train_dataloader(self) -> Any:
            few = torch.utils.data.SubsetRandomSampler(range(10))
            return DataLoader(
                data(4000), batch_sampler=torch.utils.data.BatchSampler(few, self.batch_size, False)
            )

    assert dt.Tuner(quiet()).scale_batch_size(Sampled()) == 10


@pytest.mark.ranks
@pytest.mark.parametrize("devices", [1, 2])
def test_a_data_module_is_prepared_once_and_set_up_once_a_rank(tmp_path: Path, devices: int) -> None:
    module, made = Sized({devices - 1: 20}), SizedData(ready=tmp_path / "ready")
    del module.batch_size
    trainer = quiet(devices=devices, strategy="ddp" if devices > 1 else "auto")
    assert dt.Tuner(trainer).scale_batch_size(module, datamodule=made) == 16
    assert made.hparams.batch_size == 16
    noted = (tmp_path / "ready").read_text().split("\n")[:-1]
    assert sorted(noted) == sorted(
        ["prepare 0", *(f"{what} {one}" for what in ("setup", "teardown") for one in range(devices))]
    )


def test_the_size_is_set_wherever_it_stands() -> None:
    class Both(Sized):
        def __init__(self, batch_size: int = 3) -> None:
            super().__init__({0: 20})
            self.save_hyperparameters("batch_size")

        def train_dataloader(self) -> Any:
            assert self.hparams.batch_size == self.batch_size
            return self.loader()

    model = Both()
    assert dt.Tuner(quiet()).scale_batch_size(model) == 16
    assert (model.batch_size, model.hparams.batch_size) == (16, 16)


def test_another_name() -> None:
    class Other(Sized):
        def __init__(self) -> None:
            super().__init__({0: 20})
            self.bs = 3

        def loader(self) -> DataLoader:
            return DataLoader(data(4000), self.bs)

    model = Other()
    assert dt.Tuner(quiet()).scale_batch_size(model, batch_arg_name="bs") == 16
    assert (model.bs, model.batch_size) == (16, 3)


def test_steps_are_the_optimizers_so_that_its_state_takes_its_room(tmp_path: Path) -> None:
    steps = tmp_path / "steps"

    class Counted(Sized):
        def on_before_optimizer_step(self, optimizer: Any) -> None:
            with steps.open("a") as file:
                file.write(f"{self.trainer.global_step}\n")

    model = Counted({}, str(tmp_path / "log"))
    trainer = quiet(accumulate_grad_batches=4)
    assert dt.Tuner(trainer).scale_batch_size(model, steps_per_trial=2, init_val=16, max_trials=1) == 16
    assert steps.read_text().split() == ["0", "1"]
    assert (tmp_path / "log").read_text().split() == ["0", "16"] * 8


def test_callbacks_that_would_disturb_a_trial_are_left_out() -> None:
    class Own(Sized):
        def configure_callbacks(self) -> Any:
            return dt.EarlyStopping("val")  # nothing validates in a trial, and this would fail for it

        def configure_optimizers(self) -> Any:
            optimizer = torch.optim.SGD(self.parameters(), lr=0.01)
            plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
            return {"optimizer": optimizer, "lr_scheduler": {"scheduler": plateau, "monitor": "val"}}

    trainer = quiet(
        callbacks=[dt.StochasticWeightAveraging(0.1), dt.BatchSizeFinder(), dt.LearningRateFinder()]
    )
    assert dt.Tuner(trainer).scale_batch_size(Own(num_samples=39)) == 39


def test_memory_is_let_go_between_trials() -> None:
    alive: list[Any] = []
    seen: list[int] = []

    class Big:
        """Memory that a trial takes."""

    class Holding(Sized):
        def on_fit_start(self) -> None:
            gc.collect()
            seen.append(sum(one() is not None for one in alive))

        def loss(self, batch: Any) -> torch.Tensor:
            self.held = Big()  # in a cycle with its own module, and in the frames of what is raised below
            self.held.module = self
            alive.append(weakref.ref(self.held))
            return super().loss(batch)

    assert dt.Tuner(quiet()).scale_batch_size(Holding({0: 20}), mode="binsearch", margin=0) == 20
    assert seen == [0] * 9


@pytest.mark.ranks
@pytest.mark.parametrize(("strategy", "gradients"), [("ddp", 1), ("ddp(gradient_as_bucket_view=true)", 0)])
def test_the_buckets_of_gradients_take_their_room(tmp_path: Path, strategy: str, gradients: int) -> None:
    class Looking(Sized):
        def on_train_epoch_start(self) -> None:
            (trial,) = [one for one in self.trainer.callbacks if type(one) is Trial]
            (tmp_path / str(rank())).write_text(str(trial._ballast.numel()))

    dt.Tuner(quiet(devices=2, strategy=strategy)).scale_batch_size(Looking(), max_trials=1)
    size = sum(4 * one.numel() for one in Looking().parameters())
    assert [int((tmp_path / one).read_text()) for one in ("0", "1")] == [size * gradients] * 2


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"mode": "linear"}, "'power' or 'binsearch'"),
        ({"steps_per_trial": 0}, "1 or more"),
        ({"init_val": 0}, "1 or more"),
        ({"init_val": 2.0}, "whole number"),
        ({"max_trials": 0}, "1 or more"),
        ({"margin": 1.0}, "below 1"),
        ({"margin": True}, "below 1"),
        ({"max_val": 1}, "2 or more"),
        ({"method": "tune"}, "fit, validate, test, predict"),
        ({"batch_arg_name": "hparams.size"}, "attribute's name"),
        ({"batch_arg_name": "size"}, "has no size for the batch size"),
        ({"train_dataloaders": loader()}, "def train_dataloader"),
        ({"method": "test", "dataloaders": loader()}, "def test_dataloader"),
        ({"dataloaders": loader()}, "keeps its batch size"),
    ],
)
def test_wrong_arguments_are_refused(given: dict[str, Any], what: str) -> None:
    model = Sized()
    with pytest.raises(dt.TrainerError, match=rf"trainer.bad-argument(.|\n)*{what}"):
        dt.Tuner(quiet()).scale_batch_size(model, **given)
    assert model.batch_size == 3


def test_loaders_that_do_not_follow_are_noticed() -> None:
    class Fixed(Sized):
        def loader(self) -> DataLoader:
            return DataLoader(data(4000), 32)

    with pytest.raises(
        dt.TrainerError, match=r"stayed as they were(.|\n)*32(.|\n)*batch_size=self.batch_size"
    ):
        dt.Tuner(quiet()).scale_batch_size(Fixed())
