from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from drivetrain.cli.main import main
from tests.loops.models import Regression, loader, quiet


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    trainer = quiet(max_epochs=1)
    trainer.fit(Regression(), loader())
    where = tmp_path_factory.mktemp("run") / "a.ckpt"
    trainer.save_checkpoint(where)
    return where


def test_show_prints_where_the_run_stood_and_every_entry(path: Path, capsys) -> None:
    assert main(["checkpoint", "show", str(path)]) == 0
    found = capsys.readouterr().out
    assert "global_step: 10" in found
    assert "strategy single" in found
    assert "float32 [8, 4] 128 bytes" in found
    assert main(["checkpoint", "show", "--json", str(path)]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["progress"]["epoch"] == 1
    assert any("net.0.weight" in row["entry"] for row in data["entries"])


def test_verify_tells_whole_from_torn_and_finite_from_not(path: Path, tmp_path: Path, capsys) -> None:
    assert main(["checkpoint", "verify", str(path)]) == 0
    assert "a run can go on from it" in capsys.readouterr().out
    torn = tmp_path / "torn.ckpt"
    torn.write_bytes(path.read_bytes()[:-200])
    assert main(["checkpoint", "verify", str(torn)]) == 2
    assert "checkpoint.torn" in capsys.readouterr().err
    torch.save({"state_dict": {"w": torch.tensor([1.0, float("nan")])}}, tmp_path / "nan.ckpt")
    assert main(["checkpoint", "verify", str(tmp_path / "nan.ckpt")]) == 0
    assert "weights only" in capsys.readouterr().out
    assert main(["checkpoint", "verify", "--finite", str(tmp_path / "nan.ckpt")]) == 2
    assert "checkpoint.not-finite" in capsys.readouterr().err


def test_convert_writes_plain_weights_and_lightnings_form(path: Path, tmp_path: Path, capsys) -> None:
    out = tmp_path / "weights.pt"
    assert main(["checkpoint", "convert", str(path), "--to", "weights", "--out", str(out)]) == 0
    Regression().load_state_dict(torch.load(out, weights_only=True))
    other = tmp_path / "l.ckpt"
    assert main(["checkpoint", "convert", str(path), "--to", "lightning", "--out", str(other)]) == 0
    found = torch.load(other, weights_only=True)
    assert found["hyper_parameters"]["lr"] == 0.01
    assert found["pytorch-lightning_version"]
    assert len(found["optimizer_states"]) == 1
    torch.save({"a": 1}, tmp_path / "none.ckpt")
    assert (
        main(["checkpoint", "convert", str(tmp_path / "none.ckpt"), "--to", "weights", "--out", str(out)])
        == 2
    )
    assert "checkpoint.no-weights" in capsys.readouterr().err
