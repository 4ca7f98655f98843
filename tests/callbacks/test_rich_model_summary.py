from __future__ import annotations

import drivetrain as dt
from tests.loops.models import Regression, loader, quiet


def test_rich_draws_the_same_numbers(capsys) -> None:
    rich = dt.RichModelSummary(max_depth=2, title="layers")
    quiet(max_steps=1, callbacks=[rich], enable_model_summary=None).fit(Regression(), loader())
    text = capsys.readouterr().err
    assert "layers" in text
    assert "net.3" in text
    assert [line.split() for line in text.splitlines() if "Trainable" in line] == [
        ["49", "Trainable", "params"]
    ]
