"""The reader of this machine. Other machines are built by hand; only the reader itself is shown fakes."""

from __future__ import annotations

import os
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from drivetrain.machine import probe
from drivetrain.machine.snapshot import Machine

torch: Any = pytest.importorskip("torch")

COUNTS = {
    "tpu": ("torch_xla/_internal/tpu.py", "def num_available_devices(): return 8\n", 8),
    "hpu": ("habana_frameworks/torch/hpu.py", "def device_count(): return 4\n", 4),
    "ipu": ("poptorch/__init__.py", "def ipuHardwareIsAvailable(n): return n <= 16\n", 16),
}


def test_what_is_read_makes_a_machine() -> None:
    facts = probe.read()
    machine = Machine.probe()
    assert machine.devices == facts["devices"]
    assert machine.platform.startswith(sys.platform)
    assert machine.memory_bytes["cpu"][0] > 2**20


def test_devices_are_those_that_torch_sees_and_none_is_listed_with_zero() -> None:
    devices = probe.read()["devices"]
    assert devices.get("cuda", 0) == torch.cuda.device_count()
    assert devices.get("mps", 0) == int(torch.backends.mps.is_available())
    assert 0 not in devices.values()


def test_reading_initialises_no_device() -> None:
    """In a fresh process: a device that is in use would not survive a later fork."""
    code = (
        "from drivetrain.machine import probe\n"
        "assert probe.read()['touched'] == set()\n"
        "import torch\n"
        "assert not torch.cuda.is_initialized()\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_reading_changes_no_variable_and_returns_a_copy() -> None:
    before = dict(os.environ)
    variables = probe.read()["variables"]
    assert variables == before
    variables["DRIVETRAIN_TEST_ONLY"] = "1"
    assert dict(os.environ) == before


def test_a_process_may_use_at_least_one_core(monkeypatch: pytest.MonkeyPatch) -> None:
    assert 1 <= probe.num_cpus() <= (os.cpu_count() or 1)
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    assert probe.num_cpus() == 6
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert probe.num_cpus() == 1


def test_an_operating_system_without_sysconf_tells_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sysconf", raising=False)
    assert probe.read()["memory_bytes"]["cpu"] == ()


@pytest.mark.parametrize(
    ("shell", "is_notebook"),
    [("ZMQInteractiveShell", True), ("TerminalInteractiveShell", False), ("NoneType", False)],
)
def test_a_notebook_is_a_kernel_and_a_terminal_shell_is_none(
    shell: str, is_notebook: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = None if shell == "NoneType" else type(shell, (), {})()
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: found))
    assert probe.is_notebook() is is_notebook


def test_a_process_without_ipython_is_no_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    assert probe.is_notebook() is False


@pytest.mark.parametrize(("stream", "is_terminal"), [("tty", True), ("pipe", False), ("none", False)])
def test_a_terminal_is_where_standard_error_goes_to_a_person(
    stream: str, is_terminal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = None if stream == "none" else types.SimpleNamespace(isatty=lambda: stream == "tty")
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", fake)
        found = probe.is_terminal()
    assert found is is_terminal


@pytest.mark.parametrize("kind", COUNTS)
def test_devices_of_an_optional_package_are_counted_by_it(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert probe.read()["devices"].get(kind) is None
    place, text, count = COUNTS[kind]
    path = tmp_path / place
    path.parent.mkdir(parents=True)
    for folder in path.parents:
        if folder == tmp_path:
            break
        (folder / "__init__.py").touch()
    path.write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    package = place.partition("/")[0]
    try:
        assert probe.read()["devices"][kind] == count
    finally:
        for name in [name for name in sys.modules if name.partition(".")[0] == package]:
            del sys.modules[name]


def test_memory_is_told_of_gpus_in_use_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(
        torch.cuda, "get_device_properties", lambda index: types.SimpleNamespace(total_memory=10 + index)
    )
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
    facts = probe.read()
    assert (facts["devices"]["cuda"], facts["touched"]) == (2, set())
    assert "cuda" not in facts["memory_bytes"]
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    facts = probe.read()
    assert facts["touched"] == {"cuda"}
    assert facts["memory_bytes"]["cuda"] == (10, 11)


def test_bytes_in_use_are_read_of_cuda_devices_and_of_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    for place, name in enumerate(("memory_allocated", "max_memory_allocated", "memory_reserved")):
        monkeypatch.setattr(torch.cuda, name, lambda index, place=place: 100 * place + index)
    assert probe.device_memory("cuda", 1) == {"used": 1, "peak": 101, "reserved": 201}
    assert probe.device_memory("mps", 0) == {}


def test_where_there_is_no_proc_psutil_is_asked_if_it_is_there(monkeypatch) -> None:
    psutil = pytest.importorskip("psutil")

    def refuse(*given, **named):
        raise OSError

    monkeypatch.setattr(probe, "open", refuse, raising=False)
    times = probe.processor_times()
    assert times is not None
    assert 0 < times[0] < times[1]
    monkeypatch.setattr(psutil, "virtual_memory", lambda: types.SimpleNamespace(percent=40.0))
    monkeypatch.setattr(psutil, "swap_memory", lambda: types.SimpleNamespace(percent=5.0))
    memory = types.SimpleNamespace(rss=7)
    monkeypatch.setattr(psutil, "Process", lambda: types.SimpleNamespace(memory_info=lambda: memory))
    assert probe.processor_stats() == {
        "cpu_vm_percent": 40.0,
        "cpu_swap_percent": 5.0,
        "cpu_process_bytes": 7.0,
    }
    monkeypatch.setattr(probe, "_psutil", lambda: None)
    assert (probe.processor_times(), probe.processor_stats()) == (None, {})


def test_what_the_machine_tells_is_of_now() -> None:
    busy, total = probe.processor_times()
    assert 0 < busy < total
    assert 0 < probe.processor_stats()["cpu_vm_percent"] < 100


def test_devices_of_one_kind_are_counted() -> None:
    assert probe.num_devices("cuda") == torch.cuda.device_count()
    assert probe.num_devices("nothing") == 0
