"""drivetrain checkpoint: what a file holds, whether it is whole, the same in another form."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import drivetrain as dt
from drivetrain.cli.main import main
from drivetrain.loops.lightning import is_lightnings
from tests.loops.models import Regression, differing, loader, quiet

DATA = Path(__file__).parents[1] / "checkpoint_io" / "data"
LOAD = dt.LocalCheckpointIO().load


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved")
    trainer = quiet(max_epochs=2, callbacks=[dt.EarlyStopping("val")])
    trainer.fit(Regression(), loader(20), loader(8))
    trainer.save_checkpoint(folder / "a.ckpt")
    trainer.save_checkpoint(folder / "weights.ckpt", weights_only=True)
    return folder / "a.ckpt"


def test_show_prints_entries_with_shapes_and_sizes(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["checkpoint", "show", str(saved)]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    about = {line[0]: " ".join(line) for line in lines[:5]}
    assert "drivetrain" in about["written"]
    assert f"torch {torch.__version__}" in about["written"]
    assert "accelerator cpu, strategy single, world_size 1, precision 32-true" in about["plan"]
    assert "epoch 2, global_step 10" in about["progress"]
    by_name = {line[0]: line[1:] for line in lines[6:]}
    assert by_name["state_dict.net.0.weight"] == ["tensor", "[8,", "4]", "float32", "128", "B"]
    assert by_name["hyper_parameters.lr"] == ["float", "0.01"]
    assert by_name["rng[0].python[1]"][:2] == ["list", "[625]"]


def test_show_adds_up_and_prints_json(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["checkpoint", "show", str(saved), "--depth", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.split()[:5] == ["state_dict", "4", "entries", "196", "B"] for line in lines)
    assert main(["checkpoint", "show", str(saved), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["plan"]["strategy"] == "single"
    entries = {row["entry"]: row for row in found["entries"]}
    assert entries["state_dict.net.3.bias"]["shape"] == [1]
    assert found["total_bytes"] == sum(row["num_bytes"] for row in found["entries"])


@pytest.mark.parametrize("name", ["lightning_1.9_within.ckpt", "lightning_2.6_epoch.ckpt"])
def test_show_and_verify_know_lightnings(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["checkpoint", "show", str(DATA / name)]) == 0
    out = capsys.readouterr().out
    assert f"lightning {name[10:13]}" in out
    assert "progress     epoch 1, global_step" in out
    assert main(["checkpoint", "verify", str(DATA / name), "--finite"]) == 0


def test_verify_says_what_is_wrong(saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["checkpoint", "verify", str(saved)]) == 0
    assert "whole: weights, and a state to go on from" in capsys.readouterr().out
    assert main(["checkpoint", "verify", str(saved.with_name("weights.ckpt"))]) == 0
    assert "whole: weights only" in capsys.readouterr().out
    whole, path = saved.read_bytes(), tmp_path / "a.ckpt"

    def told(*options: str) -> str:
        assert main(["checkpoint", "verify", str(path), *options]) == 2
        return capsys.readouterr().err

    assert "checkpoint.missing" in told()
    path.write_bytes(whole[:-5])
    assert "checkpoint.torn" in told()
    weight = LOAD(saved)["state_dict"]["net.0.weight"]
    place = whole.index(weight.numpy().tobytes())
    path.write_bytes(whole[:place] + b"\x07" + whole[place + 1 :])
    assert "has another checksum" in told()
    checkpoint = LOAD(saved)
    del checkpoint["loops"]["fit"]["progress"]["epoch"]
    torch.save(checkpoint, path)
    assert "loops.fit.progress.epoch is missing" in told()
    checkpoint = LOAD(saved)
    checkpoint["optimizer_states"][0]["state"][1]["exp_avg"][2] = float("inf")
    torch.save(checkpoint, path)
    assert main(["checkpoint", "verify", str(path)]) == 0
    assert "optimizer_states[0].state.1.exp_avg has values that are infinite" in told("--finite")
    torch.save({"n": 1}, path)
    assert main(["checkpoint", "verify", str(path)]) == 0
    assert "not written by a Trainer" in capsys.readouterr().out


class Bomb:
    def __reduce__(self):
        return os.mkdir, ("exploded",)


@pytest.mark.parametrize("action", [["show"], ["verify"], ["convert", "--to", "state_dict", "-o", "x.ckpt"]])
def test_nothing_in_a_file_is_run(tmp_path: Path, monkeypatch, capsys, action: list[str]) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save({"state_dict": Bomb()}, "a.ckpt")
    assert main(["checkpoint", action[0], "a.ckpt", *action[1:]]) == 2
    assert "checkpoint.unsafe" in capsys.readouterr().err
    assert [one.name for one in tmp_path.iterdir()] == ["a.ckpt"]


def test_convert_writes_each_form(saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def converted(path: Path, form: str, *options: str) -> Path:
        output = tmp_path / f"{path.stem}_{form}.ckpt"
        assert main(["checkpoint", "convert", str(path), "--to", form, "-o", str(output), *options]) == 0
        return output

    plain = torch.load(converted(saved, "state_dict"), weights_only=True)
    Regression().load_state_dict(plain)
    theirs = converted(saved, "lightning")
    assert is_lightnings(LOAD(theirs))
    back = converted(theirs, "drivetrain")
    assert LOAD(back)["loops"]["fit"]["progress"]["global_step"] == 10
    assert not differing(LOAD(back)["optimizer_states"], LOAD(saved)["optimizer_states"])
    assert main(["checkpoint", "verify", str(back)]) == 0
    assert not differing(LOAD(converted(saved, "drivetrain")), LOAD(saved))
    capsys.readouterr()
    ours = converted(DATA / "lightning_1.9_objects.ckpt", "drivetrain")
    assert "left out: hyper_parameters.args" in capsys.readouterr().out
    assert torch.load(ours, weights_only=True)["hyper_parameters"]["folder"] == "somewhere"
    within = converted(DATA / "lightning_1.9_within.ckpt", "drivetrain", "--world-size", "2")
    assert torch.load(within, weights_only=True)["loops"]["fit"]["progress"]["batches"] == 4


def test_convert_replaces_nothing_unasked_and_invents_nothing(saved: Path, tmp_path: Path, capsys) -> None:
    output = tmp_path / "out.ckpt"
    output.write_text("mine")
    words = ["checkpoint", "convert", str(saved), "--to", "state_dict", "-o", str(output)]
    assert main(words) == 2
    assert "is there already" in capsys.readouterr().err
    assert output.read_text() == "mine"
    assert main([*words, "--force"]) == 0
    for form in ("drivetrain", "lightning"):
        weights = str(saved.with_name("weights.ckpt"))
        assert main(["checkpoint", "convert", weights, "--to", form, "-o", str(tmp_path / "no.ckpt")]) == 2
        assert "checkpoint.no-training-state" in capsys.readouterr().err
    assert not (tmp_path / "no.ckpt").exists()


@pytest.mark.filterwarnings("ignore:.*checkpoint.foreign")
def test_a_converted_checkpoint_is_gone_on_from(saved: Path, tmp_path: Path) -> None:
    theirs, ours = tmp_path / "theirs.ckpt", tmp_path / "ours.ckpt"
    assert main(["checkpoint", "convert", str(saved), "--to", "lightning", "-o", str(theirs)]) == 0
    assert main(["checkpoint", "convert", str(theirs), "--to", "drivetrain", "-o", str(ours)]) == 0
    weights = []
    for path in (saved, theirs, ours):
        module = Regression()
        result = quiet(max_epochs=3).fit(module, loader(20), ckpt_path=path)
        assert (result.steps, result.steps_here) == (15, 5)
        weights.append(module.state_dict())
    assert not differing(weights[0], weights[1])
    assert not differing(weights[0], weights[2])


@pytest.mark.slow
def test_a_reader_that_has_seen_enough_is_no_failure(saved: Path) -> None:
    command = f"{sys.executable} -m drivetrain checkpoint show {saved} | head -1"
    found = subprocess.run(
        ["/bin/bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, check=False
    )
    assert (found.returncode, found.stderr) == (0, "")
