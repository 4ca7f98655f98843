from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

import drivetrain as dt

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("logger", "module", "extra", "given"),
    [
        ("TensorBoardLogger", "tensorboard", "tensorboard", ("runs",)),
        ("WandbLogger", "wandb", "wandb", ()),
        ("MLFlowLogger", "mlflow", "mlflow", ()),
        ("CometLogger", "comet_ml", "comet", ()),
    ],
)
def test_without_its_package_a_logger_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, logger: str, module: str, extra: str, given: tuple[str, ...]
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(dt.BuildError, match=rf"build.package-missing.*{logger} needs {module}") as caught:
        getattr(dt, logger)(*given)
    assert caught.value.hint == f'pip install "drivetrain[{extra}]"'
    assert re.search(rf"^{extra} = \[$", (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
