from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torchmetrics

import drivetrain as dt
from tests.callbacks.rows import Rows
from tests.loops.models import Regression, data, loader, quiet


class Several(Regression):
    def validation_step(self, batch, batch_idx, dataloader_idx=0):
        self.log("val", self.loss(batch))
        self.log("index", float(dataloader_idx), add_dataloader_idx=False)

    def on_validation_epoch_end(self):
        self.log("once", 5.0)


def test_each_loader_has_its_own_values_and_they_are_exact() -> None:
    module, trainer = Several(), quiet()
    found = trainer.validate(module, [loader(5, 2), loader(7, 3)])
    with torch.no_grad():
        for number, count in enumerate((5, 7)):
            exact = module.loss(data(count)[:]).item()
            assert found[number][f"val/dataloader_idx_{number}"] == pytest.approx(exact, abs=1e-7)
            assert found[number]["once"] == 5.0
    assert set(trainer.callback_metrics) == {"val/dataloader_idx_0", "val/dataloader_idx_1", "index", "once"}
    assert set(trainer.validate(module, loader(5, 2))[0]) == {"val", "index", "once"}


def test_a_step_that_ignores_the_loaders_number_is_refused_with_several() -> None:
    with pytest.raises(
        dt.ModuleError, match=r"module.step-arguments\] Regression.test_step does not take dataloader_idx"
    ):
        quiet().test(Regression(), [loader(), loader()])
    with pytest.raises(dt.ModuleError, match=r"module.no-step"):
        quiet().test(dt.Module(), loader())


def test_a_limit_of_none_evaluates_nothing() -> None:
    assert quiet(limit_test_batches=0).test(Regression(), loader()) == [{}]
    assert quiet(limit_test_batches=2).test(Regression(), loader(5, 2))[0]["count"] == 2.0


def test_weights_come_from_a_checkpoint(tmp_path) -> None:
    trainer, module = quiet(max_epochs=2), Regression()
    trainer.fit(module, loader())
    trainer.save_checkpoint(tmp_path / "a.ckpt")
    expected = trainer.test(module, loader())
    assert quiet().test(Regression(), loader()) != expected
    assert quiet().test(Regression(), loader(), ckpt_path=tmp_path / "a.ckpt") == expected


@pytest.mark.parametrize("verb", ["validate", "test", "predict"])
@pytest.mark.parametrize("source", [[], iter(())])
def test_a_run_on_nothing_is_refused(verb: str, source: Any) -> None:
    with pytest.raises(dt.DataError, match=r"data.empty"):
        getattr(quiet(), verb)(Regression(), source)


def test_nothing_is_fine_where_it_is_asked_for() -> None:
    trainer = quiet(limit_test_batches=0, limit_predict_batches=0, limit_val_batches=0, max_epochs=1)
    assert trainer.test(Regression(), []) == [{}]
    assert trainer.predict(Regression(), []) == []
    quiet(max_epochs=1).fit(Regression(), loader(), [])  # a module without validation loaders says so
    with pytest.raises(dt.DataError, match=r"data.empty"):
        quiet(max_epochs=1).fit(Regression(), loader(), loader(3, drop_last=True))


def test_a_decorated_step_gets_what_the_step_inside_expects() -> None:
    def decorated(step: Any) -> Any:
        def called(*arguments: Any) -> Any:
            return step(*arguments)

        return called

    class Decorated(Regression):
        validation_step = decorated(Regression.validation_step)
        predict_step = decorated(lambda self, batch, batch_idx: batch[0])

    assert set(quiet().validate(Decorated(), loader())[0]) == {"val"}
    assert len(quiet().predict(Decorated(), loader())) == 10


def test_a_module_in_float64_gets_its_inputs_as_they_are() -> None:
    class Double(Regression):
        def validation_step(self, batch: Any, batch_idx: int) -> None:
            self.log("val", self.loss([one.double() for one in batch] if batch_idx else batch))

    module = Double().double()
    samples = [tuple(one.double() for one in batch) for batch in loader()]
    assert quiet().validate(module, samples)[0]["val"] > 0
    assert quiet(precision="64-true").validate(Regression(), loader())[0]["val"] > 0


class Reads(Regression):
    """Reads, in the hooks after an epoch, what its steps logged, as numbers and as metrics."""

    def __init__(self):
        super().__init__()
        self.fitted, self.measured = (torchmetrics.MeanMetric() for _ in range(2))
        self.found: list[tuple[str, float, float]] = []

    def training_step(self, batch, batch_idx):
        self.fitted.update(float(batch_idx))
        self.log("fitted", self.fitted, on_step=False, on_epoch=True)
        return super().training_step(batch, batch_idx)

    def on_train_epoch_end(self):
        self.found.append(
            ("train", float(self.trainer.callback_metrics["fitted"]), float(self.fitted.compute()))
        )

    def validation_step(self, batch, batch_idx):
        self.measured.update(float(batch_idx))
        self.log("measured", self.measured)
        self.log("plain", float(batch_idx + self.current_epoch))

    def on_validation_epoch_end(self):
        seen = self.trainer.callback_metrics
        assert float(seen["plain"]) == float(seen["measured"]) + self.current_epoch
        self.found.append(("val", float(seen["measured"]), float(self.measured.compute())))


@pytest.mark.parametrize("devices", [1, pytest.param(2, marks=pytest.mark.ranks)])
def test_the_hooks_after_an_epoch_see_its_values(devices: int) -> None:
    module = Reads()
    quiet(devices=devices, strategy="ddp", max_epochs=2).fit(
        module, loader(12 * devices, 4), loader(16 * devices, 4)
    )
    measured = 1.5 if devices == 1 else 3.5
    assert module.found == [("val", measured, measured), ("train", 1.0, 1.0)] * 2


class Remembers(dt.Callback):
    """Keeps a number of the fit, and logs it where the module is tested."""

    def __init__(self, kept: float) -> None:
        self.kept = kept

    def on_test_epoch_end(self, trainer, module):
        self.log("kept", self.kept)
        self.log_dict({"twice": 2 * self.kept})

    def state_dict(self):
        return {"kept": self.kept}

    def load_state_dict(self, state_dict):
        self.kept = state_dict["kept"]


def test_a_callback_s_state_comes_with_the_checkpoint(tmp_path) -> None:
    stops = dt.EarlyStopping("loss", patience=1)
    trainer = quiet(max_epochs=1, callbacks=[Remembers(3.0), dt.EarlyStopping("loss", patience=5)])
    trainer.fit(Regression(), loader())
    trainer.save_checkpoint(tmp_path / "a.ckpt")
    other = quiet(callbacks=[Remembers(0.0), stops])
    found = other.test(Regression(), loader(), ckpt_path=tmp_path / "a.ckpt")[0]
    assert (found["kept"], found["twice"]) == (3.0, 6.0)
    assert stops.best_score.isinf()
    trainer.save_checkpoint(tmp_path / "b.ckpt", weights_only=True)
    kept = quiet(callbacks=Remembers(1.0)).test(Regression(), loader(), ckpt_path=tmp_path / "b.ckpt")
    assert kept[0]["kept"] == 1.0


def test_a_callback_logs_in_a_run_only() -> None:
    callback = Remembers(1.0)
    quiet(callbacks=callback).test(Regression(), loader())
    with pytest.raises(dt.ModuleError, match=r"module.log-outside\] self.log of Remembers"):
        callback.log("late", 1.0)


class EachBatch(Regression):
    """Logs every batch of its evaluations, of two loaders."""

    def validation_step(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> None:
        first = batch[0][0, 0] * 40
        self.log("of_batch", first, on_step=True, on_epoch=False)
        self.log("both", first, on_step=True, on_epoch=True)
        self.log("hidden", first, on_step=True, on_epoch=False, logger=False)


@pytest.mark.parametrize("ranks", [{}, {"devices": 2, "strategy": "ddp"}])
def test_loggers_get_a_row_for_each_batch_that_asks_for_one(ranks: dict[str, Any], tmp_path: Path) -> None:
    rows = Rows()
    given = {"max_epochs": 2, "num_sanity_val_steps": 1, "logger": rows, **ranks}
    saver = dt.ModelCheckpoint(tmp_path, every_n_epochs=1, filename="{epoch}", save_top_k=-1)
    quiet(callbacks=saver, **given).fit(EachBatch(), loader(8), [loader(40, 10), loader(40, 20)])
    step = 2 if ranks else 1
    firsts = [
        (before + number, number * 10.0) for before in (0, 3 if ranks else 4) for number in range(0, 4, step)
    ]
    assert [(at, row["of_batch/dataloader_idx_0"]) for at, row in _of(rows, "of_batch/dataloader_idx_0")] == [
        (at, pytest.approx(value, abs=1e-5)) for at, value in firsts
    ]
    assert [at for at, _ in _of(rows, "both_step/dataloader_idx_1")] == ([0, 1] if ranks else [0, 1, 2, 3])
    assert len(_of(rows, "both_epoch/dataloader_idx_1")) == 2
    assert not any("hidden" in name for _, row in rows.rows for name in row)
    resumed = Rows()
    quiet(**{**given, "logger": resumed}).fit(
        EachBatch(), loader(8), [loader(40, 10), loader(40, 20)], ckpt_path=tmp_path / "epoch=0.ckpt"
    )
    second = _of(rows, "of_batch/dataloader_idx_0")[4 // step :]
    assert _of(resumed, "of_batch/dataloader_idx_0") == second


def _of(rows: Rows, name: str) -> list[tuple[int | None, dict[str, float]]]:
    return [(step, values) for step, values in rows.rows if name in values]


def test_a_validation_that_is_run_again_writes_its_rows_at_the_same_numbers(tmp_path: Path) -> None:
    class Saves(EachBatch):
        def on_validation_batch_end(
            self, outputs: Any, batch: Any, batch_idx: int, dataloader_idx: int
        ) -> None:
            if dataloader_idx == 1 and not self.trainer.sanity_checking:
                self.trainer.save_checkpoint(tmp_path / f"{self.current_epoch}-{batch_idx}.ckpt")

    loaders = [loader(40, 10), loader(40, 20)]
    whole, again = Rows(), Rows()
    quiet(max_epochs=2, logger=whole).fit(Saves(), loader(8), loaders)
    quiet(max_epochs=2, logger=again).fit(EachBatch(), loader(8), loaders, ckpt_path=tmp_path / "1-0.ckpt")
    name = "of_batch/dataloader_idx_0"
    assert _of(again, name) == _of(whole, name)[4:]
