from __future__ import annotations

import re

import drivetrain as dt
from tests.loops.models import Regression, loader, quiet


class Shown(Regression):
    def training_step(self, batch, batch_idx):
        loss = self.loss(batch)
        self.log("loss", loss, prog_bar=True, on_epoch=True)
        self.log("hidden", 1.0)
        return loss


def test_lines_say_where_the_fit_is(capsys) -> None:
    quiet(max_epochs=2, callbacks=[dt.LineProgress(period_s=0.0)]).fit(Shown(), loader())
    lines = capsys.readouterr().err.splitlines()
    assert re.fullmatch(r"epoch 0  batch 1/10  step 1  [\d.]+ steps/s  loss [\d.e-]+|.*loss_step.*", lines[0])
    assert lines[-1].startswith("epoch 1 done  step 20  loss_step ")
    assert "loss_epoch" in lines[-1]
    assert not any("hidden" in line for line in lines)


def test_few_lines_are_printed_and_the_last_always(capsys) -> None:
    quiet(max_epochs=3, callbacks=[dt.LineProgress(period_s=60.0)]).fit(Shown(), loader())
    assert len(capsys.readouterr().err.splitlines()) == 1
