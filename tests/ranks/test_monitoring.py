"""Summaries, profilers, bars and throughput on two ranks, in one run."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import drivetrain as dt
from tests.callbacks.rows import Rows
from tests.callbacks.screen import watched
from tests.loops.models import Regression, loader, quiet

pytestmark = pytest.mark.ranks


class Everybody(dt.Callback):
    """Gathers what each rank's callbacks have, on rank 0."""

    is_last = True

    def __init__(self) -> None:
        self.found: list[Any] = []

    def on_train_end(self, trainer, module):
        monitor, bar = trainer.callbacks[0], trainer.callbacks[1]
        rates = monitor._throughputs["train"].rates()
        self.found = trainer.collectives.all_gather_object(
            {
                "rates": rates,
                "is_enabled": bar.is_enabled,
                "actions": sorted(trainer.profiler.recorded_durations),
            }
        )


class Known(Regression):
    flops_per_batch = 1000


def test_each_rank_measures_itself_and_rank_0_speaks_for_all(tmp_path, capfd) -> None:
    rows, everybody = Rows(), Everybody()
    monitor = dt.ThroughputMonitor(lambda batch: len(batch[0]), window_size=50, available_flops=1e9)
    trainer = quiet(
        devices=2,
        launcher="fork",
        strategy="ddp",
        max_epochs=2,
        log_every_n_steps=4,
        logger=rows,
        enable_model_summary=True,
        profiler=dt.SimpleProfiler(tmp_path, "times"),
        callbacks=[monitor, dt.TQDMProgressBar(), everybody, dt.DeviceStatsMonitor()],
    )
    module = Known()
    module.example_input_array = torch.zeros(2, 4)
    text = watched(lambda: trainer.fit(module, loader(64), loader(12)))
    assert text.count("Trainable params") == 1
    assert capfd.readouterr() == ("", "")  # rank 1 has the process's own standard error
    assert text.count("Total FLOPs") == 1
    assert "Epoch 1/1" in text

    first, second = everybody.found
    assert (first["is_enabled"], second["is_enabled"]) == (True, False)
    assert "[Strategy]DDPRuntime.backward" in first["actions"]
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["fit-times-0.txt", "fit-times-1.txt"]
    assert "run_training_batch" in (tmp_path / "fit-times-1.txt").read_text()

    found = rows.named("train/")
    assert sorted(found) == [4, 8, 12, 16]
    last = found[16]
    assert (last["train/batches"], last["train/samples"]) == (16, 64)
    for name in ("batches_per_sec", "samples_per_sec", "flops_per_sec"):
        both = first["rates"][name] + second["rates"][name]
        assert last[f"train/{name}"] == pytest.approx(both)
        assert last[f"train/device/{name}"] == pytest.approx(first["rates"][name])
    assert last["train/device/mfu"] == pytest.approx(first["rates"]["flops_per_sec"] / 1e9)
    assert rows.named("validate/")[16]["validate/samples_per_sec"] > 0
    assert rows.named("DeviceStatsMonitor.on_train_batch_end/")[16]
