from __future__ import annotations

import dataclasses

import pytest
import torch

import drivetrain as dt
from tests.loops.models import Regression, loader, quiet

F32, BF16 = torch.float32, torch.bfloat16


class Normed(Regression):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("index", torch.tensor([3]))
        self.frozen = torch.nn.Linear(2, 2).requires_grad_(False)
        self.later = torch.nn.LazyLinear(2)
        self.net.append(torch.nn.BatchNorm1d(1))

    def training_step(self, batch, batch_idx):
        return self.loss(batch)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.net.parameters(), lr=0.01, eps=1e-3)


def test_before_any_run_it_says_so() -> None:
    with pytest.raises(dt.TrainerError, match=r"trainer.no-run\] trainer.precision_report\(\)"):
        quiet().precision_report()


@pytest.mark.parametrize(("precision", "kind"), [("32-true", F32), ("bf16-true", BF16)])
def test_it_is_read_off_each_module(precision: str, kind: torch.dtype) -> None:
    trainer = quiet(max_steps=2, precision=precision)
    trainer.fit(Normed(), loader(8))
    report = trainer.precision_report()
    assert [(row.name, row.kind) for row in report.rows] == [
        ("", "Normed"),
        ("net.0", "Linear"),
        ("net.3", "Linear"),
        ("net.4", "BatchNorm1d"),
        ("frozen", "Linear"),
    ]
    itself, linear, _, norm, frozen = report.rows
    assert dataclasses.astuple(itself)[2:] == ((), (), (), (torch.int64,))
    assert dataclasses.astuple(linear)[2:] == ((kind,), (kind,), (kind,), ())
    assert norm.buffers == (kind, torch.int64)
    assert dataclasses.astuple(frozen)[2:] == ((kind,), (), (), ())
    assert (report.parameters, report.gradients, report.optimizer) == ((kind,), (kind,), (kind,))
    assert report.buffers == (torch.int64, kind)
    assert (report.precision, report.reductions, report.scale, report.num_left_out) == (
        precision,
        (),
        None,
        0,
    )


def test_it_is_a_table() -> None:
    trainer = quiet(max_steps=2, plugins=[dt.MixedPrecision("16-mixed", init_scale=2.0**40)])
    trainer.fit(Normed(), loader(8))
    assert str(trainer.precision_report()).splitlines() == [
        "module    class        parameters  gradients  optimizer  buffers",
        "(itself)  Normed       -           -          -          int64",
        "net.0     Linear       float32     float32    -          -",
        "net.3     Linear       float32     float32    -          -",
        "net.4     BatchNorm1d  float32     float32    -          float32, int64",
        "frozen    Linear       float32     -          -          -",
        "precision  16-mixed",
        "reductions -",
        f"loss scale {2.0**38:g}, steps left out: 2",
    ]


def test_it_is_of_the_last_run_and_of_the_one_that_goes_on() -> None:
    class Asks(dt.Callback):
        def on_train_batch_end(self, trainer, *_):
            self.report = trainer.precision_report()

    asks, module = Asks(), Regression()
    trainer = quiet(max_steps=1, precision="bf16-true", callbacks=[asks])
    trainer.fit(module, loader(8))
    assert asks.report == trainer.precision_report()
    trainer.validate(module, loader(8))
    assert trainer.precision_report().parameters == (BF16,)
    assert trainer.precision_report().optimizer == ()
