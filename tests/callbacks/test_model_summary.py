from __future__ import annotations

import pytest
import torch

import drivetrain as dt
from tests.loops.models import Regression, loader, quiet


def test_a_fit_begins_with_the_table_unless_it_is_switched_off(capsys) -> None:
    quiet(max_steps=1, enable_model_summary=None).fit(Regression(), loader())
    lines = capsys.readouterr().err.splitlines()
    assert [cell.strip() for cell in lines[1].split("|")] == ["", "Name", "Type", "Params", "Mode"]
    assert lines[3] == "0 | net  | Sequential | 49     | train"
    assert lines[5].split(maxsplit=1) == ["49", "Trainable params"]
    quiet(max_steps=1).fit(Regression(), loader())
    quiet(max_steps=1, barebones=True).fit(Regression(), loader())
    trainer = quiet(enable_model_summary=True)
    trainer.test(Regression(), loader())
    assert capsys.readouterr().err == ""
    assert [type(one) for one in trainer.callbacks] == [dt.ModelSummary]


def test_the_example_runs_in_the_precision_of_the_run(capsys) -> None:
    class Asks(Regression):
        def forward(self, x):
            y = super().forward(x)
            seen.append((y.dtype, self.training))
            return y

    seen: list = []
    module = Asks()
    module.example_input_array = torch.zeros(6, 4)
    quiet(max_steps=1, precision="bf16-mixed", callbacks=[dt.ModelSummary()], enable_model_summary=None).fit(
        module, loader()
    )
    assert seen[0] == (torch.bfloat16, False)
    assert "[6, 4]" in capsys.readouterr().err


def test_who_overrides_summarize_gets_the_table() -> None:
    class Own(dt.ModelSummary):
        @staticmethod
        def summarize(
            summary_data,
            total_parameters,
            trainable_parameters,
            model_size,
            total_training_modules,
            total_flops,
            **summarize_kwargs,
        ):
            got.append((dict(summary_data)["Name"], total_parameters, summarize_kwargs))

    got: list = []
    own = Own(max_depth=2, to="here")
    quiet(max_steps=1, callbacks=[own], enable_model_summary=True).fit(Regression(), loader())
    assert got == [(["net", "net.0", "net.1", "net.2", "net.3"], 49, {"to": "here"})]


@pytest.mark.parametrize("kind", [dt.ModelSummary, dt.RichModelSummary])
def test_a_depth_is_an_int(kind) -> None:
    with pytest.raises(dt.ModuleError, match=r"module.summary-depth"):
        kind(max_depth="top")
