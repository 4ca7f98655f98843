"""The command: plain text in a pipe, JSON on request, exit 2 with the errors."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import drivetrain as dt
from drivetrain.cli import doctor
from drivetrain.cli.main import main
from drivetrain.resolver.catalogue import shipped


def test_plan_prints_the_explained_plan(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--machine", "cuda=8", "--devices", "4"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("flag ")
    assert "4 (0-3)" in out
    assert "drivetrain plan --devices='4'" in out


def test_plan_prints_json_that_reads_back(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--machine", "cuda=8", "--strategy", "fsdp+tp(size=2)", "--json"]) == 0
    plan = dt.Plan.from_dict(json.loads(capsys.readouterr().out))
    assert plan == dt.plan(strategy="fsdp+tp(size=2)", machine=dt.Machine(cuda=8))


def test_plan_ends_with_2_and_the_errors(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--machine", "cpu", "--accelerator", "cuda"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("[plan.accelerator-missing]")
    assert main(["plan", "--machine", "cpu", "--accelerator", "cuda", "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["conflicts"][0]["code"] == "plan.accelerator-missing"


@pytest.mark.parametrize("words", [["--machine", "cuda=x"], ["--machine", "cpu", "--env", "novalue"]])
def test_a_pretended_machine_that_cannot_be_read_is_said(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", *words]) == 2
    assert "is written as" in capsys.readouterr().err


def test_a_pretended_machine_has_only_kinds_that_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    """A kind that nobody knows would be a machine without devices, and the plan one for the CPU."""
    assert main(["plan", "--machine", "gpu=8"]) == 2
    assert "machine has 'gpu', which is no kind of device" in capsys.readouterr().err


def test_a_machine_is_pretended_with_its_variables_and_notebook(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["plan", "--machine", "cuda=2", "--notebook", "--env", "DRIVETRAIN_PRECISION=bf16", "--json"]
    assert main(words) == 0
    plan = json.loads(capsys.readouterr().out)
    assert (plan["num_devices"], plan["precision"]) == (1, "bf16-mixed")


def test_old_flags_are_noted_with_the_new_call(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--machine", "cuda=8", "--gpus", "2"]) == 0
    assert "note: gpus=2 is an old spelling" in capsys.readouterr().out


def test_a_plan_of_a_pretended_machine_loads_no_torch() -> None:
    code = (
        "import sys; from drivetrain.cli.main import main; "
        "assert main(['plan', '--machine', 'cuda=8', '--devices', '4']) == 0; "
        "assert 'torch' not in sys.modules, 'torch was loaded'"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_doctor_says_what_is_missing_for_what() -> None:
    machine = dt.Machine({"cuda": 2}, {"NCCL_DEBUG": "INFO", "SECRET": "x", "SLURM_PROCID": "0"}, num_cpus=4)
    parts = dict(doctor.report(machine, shipped()))
    assert "cuda   2" in parts["devices"]
    assert parts["variables"] == ["NCCL_DEBUG=INFO", "SLURM_PROCID=0"]
    assert any(line.startswith("ddp") and line.endswith("ready") for line in parts["strategies"])
    assert any(line.startswith("xla ") and "hardware: tpu" in line for line in parts["strategies"])


def test_doctor_looks_at_this_machine(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0
    assert "versions" in capsys.readouterr().out


def test_a_reader_that_has_seen_enough_is_no_error() -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "drivetrain", "doctor"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141
