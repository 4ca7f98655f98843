from __future__ import annotations

import json
import pickle

import pytest
import torch

import drivetrain as dt
from tests.loops.models import Regression, loader, quiet


def names(path) -> list[str]:
    """Return the names of the ranges and operators of a trace."""
    return [event["name"] for event in json.loads(path.read_text())["traceEvents"] if event.get("ph") == "X"]


def test_three_steps_are_recorded_with_the_actions_and_layers_as_ranges(tmp_path, capsys) -> None:
    profiler = dt.PyTorchProfiler(tmp_path, row_limit=3)
    module = Regression()
    quiet(max_steps=8, profiler=profiler).fit(module, loader(), loader(8))
    found = names(tmp_path / "fit-trace-0.pt.trace.json")
    strategy = "[Strategy]SingleRuntime"
    for name in (
        "run_training_batch",
        f"{strategy}.backward",
        "[Module]Linear: net.0",
        "[Optimizer]AdamW.step",
    ):
        assert found.count(name) == 3, name
    assert found.count("aten::addmm") == 6
    assert f"{strategy}.validation_step" not in found
    assert [path.name for path in tmp_path.iterdir()] == ["fit-trace-0.pt.trace.json"]
    text = capsys.readouterr().err
    assert text.startswith("FIT profiler report")
    assert "Self CPU time total" in text
    assert not module.net[0]._forward_hooks
    assert not module.net[0]._forward_pre_hooks


def test_what_torch_takes_is_handed_on(tmp_path, capsys) -> None:
    ready: list = []
    profiler = dt.PyTorchProfiler(
        tmp_path,
        filename="ops",
        group_by_input_shapes=True,
        record_module_names=False,
        sort_by_key="cuda_time_total",
        schedule=torch.profiler.schedule(wait=0, warmup=1, active=1, repeat=2),
        on_trace_ready=ready.append,
        table_kwargs={"max_name_column_width": 30},
        profile_memory=True,
    )
    quiet(profiler=profiler).test(Regression(), loader())
    assert [type(one) for one in ready] == [torch.profiler.profile] * 2
    assert [path.name for path in tmp_path.iterdir()] == ["test-ops-0.txt"]
    text = (tmp_path / "test-ops-0.txt").read_text()
    assert "Input Shapes" in text
    assert "CPU Mem" in text
    assert "[Module]Linear" not in text
    assert capsys.readouterr().err == ""


def test_several_recordings_have_a_trace_each(tmp_path) -> None:
    schedule = torch.profiler.schedule(wait=0, warmup=1, active=1)
    quiet(profiler=dt.PyTorchProfiler(tmp_path, "t", schedule=schedule)).predict(Regression(), loader(24))
    traces = sorted(path.name for path in tmp_path.glob("*.json"))
    assert traces == [f"predict-t-0{number}.pt.trace.json" for number in ("-1", "-2", "")]


def test_a_run_that_ends_before_the_schedule_records_says_so(tmp_path, capsys) -> None:
    quiet(profiler=dt.PyTorchProfiler(tmp_path), max_steps=1).fit(Regression(), loader())
    assert (
        "nothing was recorded: the schedule asks for no recording within 1 steps" in capsys.readouterr().err
    )
    quiet(profiler=dt.PyTorchProfiler(tmp_path, schedule=None), max_steps=1).fit(Regression(), loader())
    assert "ProfilerStep" not in capsys.readouterr().err
    assert names(tmp_path / "fit-trace-0.pt.trace.json").count("run_training_batch") == 1


def test_it_works_without_a_run(tmp_path) -> None:
    profiler = dt.PyTorchProfiler(tmp_path, export_to_chrome=False)
    with profiler.profile("mine"):
        torch.ones(3).add(1)
    profiler.teardown(None)
    assert "aten::add" in profiler.summary()
    with profiler.profile("late"):
        pass
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"with_stak": True}, "did you mean with_stack=...?"),
        ({"zzzzzzzzz": True}, "leave zzzzzzzzz out"),
        ({"schedule": 3}, "schedule is a function"),
        ({"sort_by_key": "cpu_tim"}, "did you mean 'cpu_time'?"),
        ({"sort_by_key": 3}, "pass sort_by_key='cpu_time_total'"),
        ({"row_limit": 0}, "row_limit"),
        ({"export_to_chrome": "yes"}, "pass export_to_chrome=True"),
    ],
)
def test_wrong_arguments_are_refused_before_a_run(given: dict, says: str) -> None:
    with pytest.raises(dt.ProfilerError) as caught:
        dt.PyTorchProfiler(**given)
    assert caught.value.code == "profiler.bad-argument"
    assert says in str(caught.value)


@pytest.mark.skipif(torch.cuda.is_available(), reason="refused where there is no CUDA device")
def test_nvtx_without_cuda_is_refused() -> None:
    with pytest.raises(dt.BuildError, match=r"profiler.no-cuda\] .*without a CUDA device"):
        dt.PyTorchProfiler(emit_nvtx=True)


def test_it_travels_without_its_recording() -> None:
    profiler = dt.PyTorchProfiler(export_to_chrome=False)
    with profiler.profile("mine"):
        there = pickle.loads(pickle.dumps(profiler))  # noqa: S301 - our own bytes
    profiler.teardown(None)
    assert (there._profile, there._ranges) == (None, [])
