from __future__ import annotations

import csv
import math
import statistics
from pathlib import Path
from typing import Any

import pytest
import torch
import torchmetrics
from torch.utils.data import DataLoader

import drivetrain as dt
from tests.loops.models import Regression, data, loader, quiet

pytestmark = pytest.mark.ranks

OPERATIONS: dict[str, dict[str, Any]] = {
    "mean": {},
    "sum": {"reduce_fx": "sum"},
    "min": {"reduce_fx": min},
    "max": {"reduce_fx": "max"},
    "median": {"reduce_fx": torch.median},
    "largest_mean": {"reduce_fx": "mean", "rank_fx": "max"},
    "own": {"sync_dist": False},
    "first": {"rank_zero_only": True},
}


class Logs(Regression):
    """Logs the number of each batch's first sample, in every way; the batches have 4, 4, ..., 3 samples."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[dict[str, float]] = []
        self.error = torchmetrics.MeanSquaredError()
        self.most = torchmetrics.MaxMetric()

    def training_step(self, batch, batch_idx):
        first = batch[0][0, 0] * 39
        for name, options in OPERATIONS.items():
            self.log(name, first, on_step=True, on_epoch=True, **options)
        self.error(batch[0][:, 0], batch[1][:, 0])
        self.log("error", self.error, on_step=True, on_epoch=True)
        return self.loss(batch)

    def validation_step(self, batch, batch_idx):
        self.most.update(batch[0][:, 0])
        self.log("most", self.most)

    def on_train_batch_end(self, outputs, batch, batch_idx):
        self.seen.append({name: float(value) for name, value in self.trainer.callback_metrics.items()})


def test_every_operation_gives_its_value_over_all_ranks() -> None:
    # 10 batches on two ranks: step k has the batches 2k and 2k + 1, whose first samples are 8k and 8k + 4.
    module, samples = Logs(), data(39)[:]
    # The validation has one batch, so one of the ranks has none.
    trainer = quiet(devices=2, strategy="ddp", max_epochs=1, log_every_n_steps=1)
    metrics = trainer.fit(module, loader(39), DataLoader(data(39), 39)).metrics

    firsts = [float(4 * index) for index in range(10)]
    sizes = [4] * 9 + [3]
    even, odd = firsts[::2], firsts[1::2]
    expected = {
        "mean": sum(first * size for first, size in zip(firsts, sizes, strict=True)) / 39,
        "sum": sum(firsts),
        "min": 0.0,
        "max": 36.0,
        "median": statistics.median_low(firsts),
        "largest_mean": max(sum(even) / 5, sum(o * s for o, s in zip(odd, sizes[1::2], strict=True)) / 19),
        "own": sum(even) / 5,
        "first": sum(even) / 5,
        "error": ((samples[0][:, 0] - samples[1][:, 0]) ** 2).mean().item(),
    }
    for name, value in expected.items():
        assert metrics[f"{name}_epoch"] == pytest.approx(value, rel=1e-5), name
        assert metrics[name] == metrics[f"{name}_epoch"]
    assert metrics["most"] == pytest.approx(38 / 39)
    second = module.seen[1]  # batches 2 and 3: 8 and 12
    steps = {
        "mean": 10,
        "sum": 20,
        "min": 8,
        "max": 12,
        "median": 8,
        "largest_mean": 12,
        "own": 8,
        "first": 8,
    }
    assert {name: second[f"{name}_step"] for name in steps} == pytest.approx(steps)
    last = module.seen[-1]  # 4 samples and 3
    assert last["mean_step"] == pytest.approx((32 * 4 + 36 * 3) / 7)
    assert module.error.update_count == 0


class Differs(Regression):
    """Logs another name on one rank, at one step that is not logged."""

    def training_step(self, batch, batch_idx):
        name = "extra" if self.global_rank and batch_idx == 2 else "loss"
        self.log(name, 1.0)
        return self.loss(batch)


def test_other_names_on_one_rank_are_an_error_at_once() -> None:
    steps: list[int] = []

    class Counts(dt.Callback):
        def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
            steps.append(batch_idx)

    trainer = quiet(devices=2, strategy="ddp", max_epochs=1, log_every_n_steps=50, callbacks=Counts())
    with pytest.raises(dt.CollectiveError) as caught:
        trainer.fit(Differs(), loader(400))
    assert caught.value.code == "loop.logged-keys"
    assert "rank 0 did not log 'extra' in a step" in str(caught.value)
    assert "loss" in str(caught.value)
    assert steps[-1] < 49  # before the step whose values are written


class OnOneRank(Regression):
    def training_step(self, batch, batch_idx):
        if self.global_rank == 0:
            self.log("mine", float(batch_idx), on_step=True, on_epoch=True, rank_zero_only=True)
        return self.loss(batch)

    def on_train_epoch_end(self):
        if self.global_rank == 0:
            self.log("at_the_end", 7.0, rank_zero_only=True)


def test_what_one_rank_logs_by_itself_waits_for_nobody() -> None:
    trainer = quiet(devices=2, strategy="ddp", max_epochs=1, log_every_n_steps=1)
    metrics = trainer.fit(OnOneRank(), loader(40)).metrics
    assert (metrics["mine_step"], metrics["mine_epoch"], metrics["at_the_end"]) == (4.0, 2.0, 7.0)


class OtherOptions(Regression):
    """Logs one name in steps and validations, on rank 1 with options of its own."""

    def __init__(self, hook: str, others: dict[str, Any]) -> None:
        super().__init__()
        self.hook, self.others = hook, others
        self.error = torchmetrics.MeanSquaredError()

    def note(self, hook: str, batch: Any) -> None:
        self.error(batch[0][:, 0], batch[1][:, 0])
        given = {"on_step": True, "on_epoch": True, **(self.others if self.global_rank else {})}
        if hook == self.hook:
            self.log("mine", given.pop("value", 1.0), **given)
        if hook == self.hook:  # a name that all ranks log alike takes no part
            self.log("same", 1.0)

    def training_step(self, batch, batch_idx):
        self.note("training_step", batch)
        return self.loss(batch)

    def validation_step(self, batch, batch_idx):
        self.note("validation_step", batch)


@pytest.mark.parametrize("hook", ["training_step", "validation_step"])
@pytest.mark.parametrize(
    ("others", "usual"),
    [
        ({"on_epoch": False}, True),
        ({"reduce_fx": "max"}, "mean"),
        ({"rank_fx": "max"}, None),
        ({"sync_dist": False}, True),
        ({"rank_zero_only": True}, False),
    ],
)
def test_other_options_on_one_rank_are_an_error_that_names_them(
    hook: str, others: dict[str, Any], usual: object
) -> None:
    trainer = quiet(devices=2, strategy="ddp", max_epochs=1)
    module = OtherOptions(hook, others)
    with pytest.raises(dt.CollectiveError) as caught:
        trainer.fit(module, loader(39), loader(39))
    assert caught.value.code == "loop.logged-keys"
    ((option, other),) = others.items()
    when = "a step" if hook == "training_step" else "this epoch"
    assert caught.value.message == f"ranks logged 'mine' in {when} with different options: {option}"
    assert caught.value.values == {f"{option} on rank 0": usual, f"{option} on rank 1": other}


class MetricOnOne(OtherOptions):
    def note(self, hook: str, batch: Any) -> None:
        self.error(batch[0][:, 0], batch[1][:, 0])
        self.log("mine", self.error if self.global_rank else 1.0)


def test_a_metric_on_one_rank_and_a_number_on_the_other_are_an_error() -> None:
    with pytest.raises(dt.CollectiveError, match=r"value on rank 1 = 'torchmetrics object error'"):
        quiet(devices=2, strategy="ddp").validate(MetricOnOne("", {}), loader(39))


class StopsOnOne(dt.Callback):
    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        if trainer.global_rank == 1 and batch_idx == 2:
            trainer.should_stop = True


def test_a_stop_that_one_rank_wants_comes_at_the_next_step_that_is_logged() -> None:
    trainer = quiet(devices=2, strategy="ddp", max_epochs=3, log_every_n_steps=50, callbacks=StopsOnOne())
    result = trainer.fit(Regression(), loader(400))
    assert (result.steps, result.stopped_early) == (50, True)


class OneNan(Regression):
    """Logs nan, and values without bound, in one batch; each rank has one of the two batches."""

    def __init__(self, at: int) -> None:
        super().__init__()
        self.at = at

    def validation_step(self, batch, batch_idx):
        is_there = batch_idx == self.at
        for fx in ("mean", "sum", "min", "max"):
            self.log(fx, math.nan if is_there else 1.0, reduce_fx=fx)
        self.log("infinite_min", -math.inf if is_there else 1.0, reduce_fx="min")
        self.log("infinite_max", math.inf if is_there else 1.0, reduce_fx="max")


@pytest.mark.parametrize("at", [0, 1])
def test_nan_on_any_rank_is_nan_over_all(at: int) -> None:
    (values,) = quiet(devices=2, strategy="ddp").validate(OneNan(at), loader(8))
    assert all(math.isnan(values[fx]) for fx in ("mean", "sum", "min", "max"))
    assert (values["infinite_min"], values["infinite_max"]) == (-math.inf, math.inf)


class AtTheEndOfSteps(Regression):
    """Logs in on_train_batch_end, and counts in torchmetrics objects; 5 batches, so a rank lacks the last."""

    def __init__(self) -> None:
        super().__init__()
        self.mean = torchmetrics.MeanMetric()
        self.all = torchmetrics.MetricCollection(
            {"mse": torchmetrics.MeanSquaredError(), "rmse": torchmetrics.MeanSquaredError(squared=False)}
        )
        self.seen: list[float] = []

    def training_step(self, batch, batch_idx):
        first = batch[0][:, 0] * 36
        self.mean(first)
        self.log("mean", self.mean, on_step=True, on_epoch=True)
        self.all(first, torch.zeros_like(first))
        self.log_dict(self.all, on_step=False, on_epoch=True)
        return self.loss(batch)

    def on_train_batch_end(self, outputs, batch, batch_idx):
        self.log("after", float(batch_idx + self.global_rank))


class SeesLast(dt.Checkpoint):
    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        module.seen.append(float(trainer.callback_metrics["after"]))


def logged_by(
    devices: int, batch_size: int, folder: Path, factor: int = 1
) -> tuple[AtTheEndOfSteps, dict[str, list[str]]]:
    module, logger = AtTheEndOfSteps(), dt.CSVLogger(folder)
    given = {"devices": devices, "max_epochs": 1, "log_every_n_steps": 1, "accumulate_grad_batches": factor}
    trainer = quiet(**given, logger=logger, callbacks=SeesLast() if factor == 1 else None)
    trainer.fit(module, loader(36, batch_size))
    with Path(logger.log_dir, "metrics.csv").open(encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    return module, {name: [row[name] for row in rows] for name in rows[0]}


def test_what_is_logged_after_a_step_is_written_with_it(tmp_path: Path) -> None:
    module, rows = logged_by(1, 8, tmp_path / "one")
    assert (rows["after"], module.seen) == (["0.0", "1.0", "2.0", "3.0", "4.0"], [0.0, 1.0, 2.0, 3.0, 4.0])
    module, rows = logged_by(2, 8, tmp_path / "two")
    # The mean over ranks and their samples; in the last step rank 1 has none.
    assert rows["after"] == ["0.5", "1.5", "2.0"]
    assert module.seen == [0.5, 1.5, 2.0]
    _, rows = logged_by(1, 8, tmp_path / "windows", 2)  # each step's value is that of its last batch
    assert rows["after"] == ["1.0", "3.0", "4.0"]


def test_a_metric_does_not_count_a_stand_in(tmp_path: Path) -> None:
    _, one = logged_by(1, 8, tmp_path / "one")
    _, two = logged_by(2, 8, tmp_path / "two")
    for name, expected in (("mean_epoch", 17.5), ("mse", sum(i**2 for i in range(36)) / 36)):
        assert float(one[name][-1]) == pytest.approx(expected, rel=1e-5)
        assert float(two[name][-1]) == pytest.approx(expected, rel=1e-5)
    assert float(two["mean_step"][-1]) == pytest.approx(33.5)
