from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

import drivetrain as dt
from drivetrain.callbacks import throughput_monitor
from drivetrain.callbacks.throughput_monitor import _number
from tests.callbacks.rows import Rows
from tests.loops.models import Regression, loader, quiet


class Clock:
    """Goes on by a second with each batch that is trained, by ten with each that is evaluated."""

    now = 0.0


class Counts(Regression):
    flops_per_batch = 100

    def training_step(self, batch, batch_idx):
        Clock.now += 1
        return super().training_step(batch, batch_idx)

    def validation_step(self, batch, batch_idx):
        Clock.now += 10

    test_step = validation_step


@pytest.fixture(autouse=True)
def _clock(monkeypatch) -> None:
    Clock.now = 0.0
    monkeypatch.setattr(throughput_monitor, "time", SimpleNamespace(monotonic=lambda: Clock.now))


def monitor(**kwargs) -> dt.ThroughputMonitor:
    return dt.ThroughputMonitor(
        lambda batch: len(batch[0]), lambda batch: batch[0].numel(), **{"available_flops": 1000.0, **kwargs}
    )


def test_rates_are_logged_and_validation_takes_no_time_of_training() -> None:
    rows = Rows()
    trainer = quiet(max_epochs=2, log_every_n_steps=5, logger=rows, callbacks=[monitor(window_size=4)])
    trainer.fit(Counts(), loader(40), loader(8))
    found = rows.named("train/")
    assert sorted(found) == [5, 10, 15, 20]
    assert found[20] == {
        "train/time": 20.0,
        "train/batches": 20.0,
        "train/samples": 80.0,
        "train/lengths": 320.0,
        "train/device/batches_per_sec": 1.0,
        "train/device/samples_per_sec": 4.0,
        "train/device/items_per_sec": 16.0,
        "train/device/flops_per_sec": 100.0,
        "train/device/mfu": 0.1,
    }
    validated = rows.named("validate/")
    assert sorted(validated) == [10, 20]
    assert validated[20]["validate/device/batches_per_sec"] == 0.1
    assert validated[20]["validate/samples"] == 8
    assert "validate/device/mfu" not in validated[20]
    trainer.test(Counts(), loader(8))
    assert rows.named("test/")[20]["test/time"] == 20.0


def test_every_batch_of_an_accumulated_step_counts_and_the_step_is_logged_once() -> None:
    rows = Rows()
    trainer = quiet(
        max_steps=4, log_every_n_steps=2, logger=rows, callbacks=[monitor()], accumulate_grad_batches=3
    )
    trainer.fit(Counts(), loader(48))
    found = rows.named("train/")
    assert {step: row["train/batches"] for step, row in found.items()} == {2: 6, 4: 12}
    assert found[4]["train/device/samples_per_sec"] == 4.0
    assert len([1 for _, row in rows.rows if "train/batches" in row]) == 2


def test_a_resumed_run_goes_on_counting_where_it_stood(tmp_path) -> None:
    def fit(steps: int, path: object = None) -> Rows:
        rows = Rows()
        saves = dt.ModelCheckpoint(tmp_path, every_n_train_steps=3, save_top_k=-1)
        trainer = quiet(
            max_steps=steps,
            log_every_n_steps=2,
            logger=rows,
            callbacks=[monitor(), saves],
            deterministic=False,
        )
        trainer.fit(Counts(), loader(48), ckpt_path=path)
        return rows

    whole = fit(6)
    (path,) = [path for path in tmp_path.iterdir() if "step=3" in path.name]
    Clock.now += 1000
    assert fit(6, path).named("train/")[6] == whole.named("train/")[6]


def test_without_an_available_peak_there_is_no_utilization() -> None:
    rows = Rows()
    trainer = quiet(max_steps=2, log_every_n_steps=2, logger=rows, callbacks=[monitor(available_flops=None)])
    trainer.fit(Regression(), loader())
    assert set(rows.named("train/")[2]) & {"train/device/mfu", "train/device/flops_per_sec"} == set()


def test_the_format_of_products_follows_the_precision() -> None:
    names = [_number(name) for name in ("bf16-mixed", "16-true", "64-true", "32-true", "transformer-engine")]
    assert names == ["bfloat16", "float16", "float64", "float32", None]
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        assert _number("32-true") == "tf32"
    finally:
        torch.set_float32_matmul_precision(before)


@pytest.mark.parametrize("given", [{"batch_size_fn": 3}, {"length_fn": 3}, {"window_size": 0}])
def test_arguments_are_checked(given: dict) -> None:
    with pytest.raises(dt.ModuleError, match=r"callback.bad-argument"):
        dt.ThroughputMonitor(**{"batch_size_fn": len, **given})
