from __future__ import annotations

import pytest

import drivetrain as dt
from tests.callbacks.rows import Rows
from tests.loops.models import Regression, loader, quiet


def test_statistics_are_logged_around_the_steps_that_are_logged() -> None:
    rows = Rows()
    monitor = dt.DeviceStatsMonitor()
    trainer = quiet(
        max_steps=7, log_every_n_steps=3, logger=rows, callbacks=[monitor], accumulate_grad_batches=2
    )
    trainer.fit(Regression(), loader(80), loader(20))
    for moment in ("start", "end"):
        found = rows.named(f"DeviceStatsMonitor.on_train_batch_{moment}/")
        assert sorted(found) == [3, 6]
        names = {name.rpartition("/")[2] for name in found[6]}
        assert names - {"cpu_percent"} == {"cpu_vm_percent", "cpu_swap_percent", "cpu_process_bytes"}
    for moment in ("start", "end"):
        assert (
            len([1 for _, row in rows.rows if any(f"on_train_batch_{moment}" in name for name in row)]) == 2
        )
    trainer.test(Regression(), loader(20))
    tested = [1 for _, row in rows.rows if any("on_test_batch_start" in name for name in row)]
    assert len(tested) == 2


def test_the_cpu_can_be_left_out() -> None:
    rows = Rows()
    quiet(max_steps=2, log_every_n_steps=1, logger=rows, callbacks=[dt.DeviceStatsMonitor(False)]).fit(
        Regression(), loader()
    )
    assert rows.named("DeviceStatsMonitor") == {}


def test_another_device_tells_its_own_and_the_cpus_where_that_is_asked_for() -> None:
    class Device:
        type = "cuda"

    class Fake:
        device = Device()
        accelerator = None

        def stats(self, device):
            return {"allocated_bytes.all.current": 5.0}

    class Run:
        strategy = Fake()
        global_step, logging_step, is_logging_step, is_global_zero = 1, 1, True, True

        def __init__(self, rows):
            self.loggers = [rows]

    Fake.accelerator = Fake()
    for asked, count in ((None, 1), (True, 4)):
        rows = Rows()
        dt.DeviceStatsMonitor(asked).on_train_batch_end(Run(rows), None, None, None, 0)
        assert len(rows.rows[0][1]) == count
        assert rows.rows[0][1]["DeviceStatsMonitor.on_train_batch_end/allocated_bytes.all.current"] == 5.0


@pytest.mark.parametrize(
    "monitor", [dt.DeviceStatsMonitor(), dt.ThroughputMonitor(batch_size_fn=lambda batch: len(batch[0]))]
)
def test_a_run_without_a_logger_is_refused(monitor) -> None:
    with pytest.raises(dt.ModuleError, match=r"callback.no-logger\] .*Monitor in a run without a logger"):
        quiet(max_steps=1, callbacks=[monitor]).fit(Regression(), loader())


def test_the_switch_is_one() -> None:
    with pytest.raises(dt.ModuleError, match=r"callback.bad-argument"):
        dt.DeviceStatsMonitor(cpu_stats="yes")
