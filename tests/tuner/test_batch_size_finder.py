from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import drivetrain as dt
from tests.loops.models import loader, quiet
from tests.tuner.sized import Sized, SizedData, rank


class Noting(Sized):
    """Writes down what a run, and not a trial of it, reads and does."""

    def __init__(self, rooms: dict[int, int] | None = None, folder: str = "") -> None:
        super().__init__(rooms)
        self.folder = folder

    def note(self, what: str, value: object) -> None:
        if not any(type(one).__name__ == "Trial" for one in self.trainer.callbacks):
            with (Path(self.folder) / f"{what} {rank()}").open("a") as file:
                file.write(f"{value}\n")

    def on_train_batch_start(self, batch: Any, batch_idx: int) -> None:
        self.note("train", len(batch[0]))

    def on_test_batch_start(self, batch: Any, batch_idx: int) -> None:
        self.note("test", len(batch[0]))

    def configure_optimizers(self) -> Any:
        self.note("total", self.trainer.estimated_stepping_batches)
        return super().configure_optimizers()


def noted(folder: Path, what: str, one: int = 0) -> list[str]:
    return (folder / f"{what} {one}").read_text().split()


@pytest.mark.ranks
@pytest.mark.parametrize("devices", [1, 2])
def test_a_fit_is_run_with_the_size_that_fits_every_rank(tmp_path: Path, devices: int) -> None:
    finder = dt.BatchSizeFinder(mode="binsearch", margin=0)
    model = Noting({devices - 1: 100}, str(tmp_path))
    trainer = quiet(
        devices=devices, strategy="ddp" if devices > 1 else "auto", max_epochs=1, callbacks=finder
    )
    result = trainer.fit(model)
    assert (finder.optimal_batch_size, model.batch_size) == (100, 100)
    assert result.steps == trainer.global_step == 40 // devices
    for one in range(devices):
        assert noted(tmp_path, "train", one) == ["100"] * (40 // devices)
        assert noted(tmp_path, "total", one) == [str(40 // devices)]  # asked once, with the right length


@pytest.mark.parametrize("verb", ["validate", "test", "predict"])
def test_so_is_every_other_verb(verb: str) -> None:
    finder, model = dt.BatchSizeFinder(), Sized({0: 40})
    found = getattr(quiet(callbacks=finder), verb)(model)
    assert (finder.optimal_batch_size, len(found)) == (32, 125 if verb == "predict" else 1)


def test_a_fit_with_the_search_is_the_fit_without_it() -> None:
    def trained(**kwargs: Any) -> tuple[Any, Any]:
        torch.manual_seed(5)
        model = Sized({0: 40}, num_samples=200)
        model.net[2] = torch.nn.Dropout(0.5)
        model.batch_size = 32
        trainer = quiet(max_epochs=2, **kwargs)
        trainer.fit(model)
        return [one.detach() for one in model.parameters()], dict(trainer.callback_metrics)

    with_search, without = trained(callbacks=dt.BatchSizeFinder()), trained()
    assert all(torch.equal(one, other) for one, other in zip(with_search[0], without[0], strict=True))
    assert with_search[1] == without[1]


@pytest.mark.ranks
@pytest.mark.parametrize("devices", [1, 2])
def test_a_subclass_searches_again_at_milestones(tmp_path: Path, devices: int) -> None:
    class AtMilestones(dt.BatchSizeFinder):
        def __init__(self, milestones: tuple[int, ...], *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self.milestones = milestones

        def on_fit_start(self, *args: Any, **kwargs: Any) -> None:
            return

        def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
            if trainer.current_epoch in self.milestones or trainer.current_epoch == 0:
                pl_module.memory.rooms = {0: 1100 - 600 * trainer.current_epoch}
                self.scale_batch_size(trainer, pl_module)

    model = Noting(None, str(tmp_path))
    flags = {"devices": devices, "strategy": "ddp"} if devices > 1 else {}
    quiet(**flags, max_epochs=3, callbacks=AtMilestones((1,))).fit(model)
    sizes = {1: ["1024"] * 3 + ["928"] + (["256"] * 15 + ["160"]) * 2, 2: ["1024"] * 2 + ["256"] * 16}
    assert noted(tmp_path, "train") == sizes[devices]
    if devices == 1:
        assert noted(tmp_path, "total") == ["4002", "12"]  # made anew before the first step, and not later


def test_a_subclass_searches_for_a_test_only_and_by_the_hook_that_it_replaces(tmp_path: Path) -> None:
    class ForTests(dt.BatchSizeFinder):
        def on_fit_start(self, *args: Any) -> None:
            return

        def on_test_start(self, trainer: Any, pl_module: Any) -> None:
            super().on_test_start(trainer, pl_module)

    model, finder = Noting({0: 1100}, str(tmp_path)), ForTests()
    trainer = quiet(max_steps=2, callbacks=finder)
    trainer.fit(model)
    assert (finder.optimal_batch_size, noted(tmp_path, "train")) == (None, ["3"] * 2)
    trainer.test(model)
    assert (finder.optimal_batch_size, noted(tmp_path, "test")) == (1024, ["1024"] * 3 + ["928"])


def test_a_run_that_goes_on_keeps_its_size(tmp_path: Path) -> None:
    path = tmp_path / "half.ckpt"
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()

    class Save(dt.Callback):
        def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
            if trainer.global_step == 4:
                trainer.save_checkpoint(path)

    whole = Noting({0: 100}, str(tmp_path / "one"))
    quiet(max_steps=8, callbacks=[dt.BatchSizeFinder(), Save()]).fit(whole)
    resumed, finder = Noting({0: 10**6}, str(tmp_path / "two")), dt.BatchSizeFinder()
    quiet(max_steps=8, callbacks=finder).fit(resumed, ckpt_path=path)
    assert (finder.optimal_batch_size, resumed.batch_size) == (64, 64)
    assert noted(tmp_path / "two", "train") == ["64"] * 4
    assert all(
        torch.equal(one, other) for one, other in zip(whole.parameters(), resumed.parameters(), strict=True)
    )


def test_a_data_module_of_the_run_is_prepared_and_set_up_once(tmp_path: Path) -> None:
    model, made = Sized({0: 100}), SizedData(ready=tmp_path / "ready")
    quiet(max_steps=2, callbacks=dt.BatchSizeFinder()).fit(model, datamodule=made)
    assert made.hparams.batch_size == 64
    assert (tmp_path / "ready").read_text().split("\n")[:-1] == ["prepare 0", "setup 0", "teardown 0"]
    assert made.trainer is not None


def test_a_search_leaves_finders_out_whoever_brings_them() -> None:
    calls: list[str] = []

    class Counted(dt.BatchSizeFinder):
        def scale_batch_size(self, trainer: Any, pl_module: Any) -> None:
            calls.append("searched")
            super().scale_batch_size(trainer, pl_module)

    class Own(Sized):
        def configure_callbacks(self) -> Any:
            return [Counted(max_val=64)]

    quiet(max_steps=1).fit(Own())
    assert calls == ["searched"]


def test_a_failure_in_a_trial_is_the_run_s(tmp_path: Path) -> None:
    told: list[BaseException] = []

    class Failing(Sized):
        def loss(self, batch: Any) -> torch.Tensor:
            if len(batch[0]) == 4:
                message = "not of the memory"
                raise RuntimeError(message)
            return super().loss(batch)

    class Hears(dt.Callback):
        def on_exception(self, trainer: Any, module: Any, exception: BaseException) -> None:
            told.append(exception)

    with pytest.raises(RuntimeError, match="not of the memory"):
        quiet(max_steps=1, callbacks=[Hears(), dt.BatchSizeFinder()]).fit(Failing())
    assert len(told) == 1
    told.clear()
    with pytest.raises(dt.TrainerError, match="init_val=2"):
        quiet(max_steps=1, callbacks=[Hears(), dt.BatchSizeFinder()]).fit(Sized({0: 1}))
    assert len(told) == 1
    assert isinstance(told[0], dt.TrainerError)


def test_a_fast_run_does_not_search() -> None:
    finder = dt.BatchSizeFinder()
    quiet(fast_dev_run=True, callbacks=finder).fit(Sized())
    assert finder.optimal_batch_size is None


def test_what_cannot_be_searched_is_refused() -> None:
    with pytest.raises(dt.TrainerError, match=r"passed to fit(.|\n)*def train_dataloader"):
        quiet(max_steps=1, callbacks=dt.BatchSizeFinder()).fit(Sized(), loader())
    with pytest.raises(dt.TrainerError, match=r"BatchSizeFinder\(mode='half'\)"):
        dt.BatchSizeFinder(mode="half")
    with pytest.raises(dt.CheckpointError, match="optimal_batch_size"):
        dt.BatchSizeFinder().load_state_dict({"optimal_batch_size": "4"})
