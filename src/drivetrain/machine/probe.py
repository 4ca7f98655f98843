"""The only reader of ``os.environ`` and of the devices. Returns plain data, decides nothing."""

from __future__ import annotations

import importlib
import importlib.util
import multiprocessing
import os
import platform
import sys
from typing import Any


def read() -> dict[str, Any]:
    """Return the facts from which a Machine is made; imports torch to ask it for devices."""
    counts, memory_bytes, touched = _torch_devices()
    counts |= {"tpu": _tpu_count(), "hpu": _hpu_count(), "ipu": _ipu_count()}
    return {
        "devices": {kind: count for kind, count in counts.items() if count},
        "variables": variables(),
        "notebook": is_notebook(),
        "fork": "fork" in multiprocessing.get_all_start_methods(),
        "touched": touched,
        "num_cpus": num_cpus(),
        "memory_bytes": memory_bytes | {"cpu": _cpu_memory()},
        "platform": f"{sys.platform} {platform.machine()}",
    }


def variables() -> dict[str, str]:
    """Return a copy of this process's environment variables."""
    return dict(os.environ)


def num_cpus() -> int:
    """Return how many CPU cores this process may use; at least 1."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def is_notebook() -> bool:
    """Whether this process is a Jupyter kernel; a terminal's IPython is not."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return type(shell).__name__ == "ZMQInteractiveShell"


def is_terminal() -> bool:
    """Whether standard error is a terminal that a person watches."""
    return sys.stderr is not None and sys.stderr.isatty()


def num_devices(kind: str) -> int:
    """Return how many devices of a kind torch can use here; imports torch."""
    return _torch_devices()[0].get(kind, 0)


def _torch_devices() -> tuple[dict[str, int], dict[str, tuple[int, ...]], set[str]]:
    import torch

    counts = {"cuda": torch.cuda.device_count(), "mps": int(torch.backends.mps.is_available())}
    touched = {"cuda"} if _is_in_use(torch.cuda) else set()
    if hasattr(torch, "xpu"):
        counts["xpu"] = torch.xpu.device_count()
        touched |= {"xpu"} if _is_in_use(torch.xpu) else set()
    # Asking for a device's properties initialises CUDA, which a later fork would not survive.
    memory = {"cuda": _cuda_memory(counts["cuda"])} if "cuda" in touched else {}
    return counts, memory, touched


def _is_in_use(backend: Any) -> bool:  # noqa: ANN401 - torch.cuda or torch.xpu, whose question is untyped
    return bool(backend.is_initialized())


def _cuda_memory(count: int) -> tuple[int, ...]:
    import torch

    return tuple(torch.cuda.get_device_properties(index).total_memory for index in range(count))


def cuda_generation(index: int) -> tuple[str, tuple[int, int]]:
    """Return a CUDA device's name and its compute capability: (8, 9) for 8.9."""
    import torch

    major, minor = torch.cuda.get_device_capability(index)
    return torch.cuda.get_device_name(index), (major, minor)


def device_memory(kind: str, index: int) -> dict[str, int]:
    """Return bytes in use, the peak, and what torch has reserved, of a device that is in use."""
    import torch

    if kind != "cuda":
        return {}
    return {
        "used": torch.cuda.memory_allocated(index),
        "peak": torch.cuda.max_memory_allocated(index),
        "reserved": torch.cuda.memory_reserved(index),
    }


def processor_times() -> tuple[float, float] | None:
    """Return seconds that the machine's cores have been busy, and their seconds in all; None if unknown."""
    try:
        with open("/proc/stat", encoding="ascii") as file:  # noqa: PTH123 - asked often: no Path is made
            ticks = [int(word) for word in file.readline().split()[1:9]]
    except OSError:
        psutil = _psutil()
        if psutil is None:
            return None
        times = psutil.cpu_times()
        return sum(times) - times.idle, sum(times)
    # user nice system idle iowait irq softirq steal; guests are in user and nice.
    total = float(sum(ticks))
    return total - ticks[3] - ticks[4], total


def processor_stats() -> dict[str, float]:
    """Return how full the memory is, of the machine and of this process; what is not known is left out."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:  # noqa: PTH123 - as above
            size = {line.split(":")[0]: float(line.split()[1]) for line in file}
        with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123 - as above
            resident = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        psutil = _psutil()
        if psutil is None:
            return {}
        memory, swap = psutil.virtual_memory().percent, psutil.swap_memory().percent
        resident = psutil.Process().memory_info().rss
    else:
        memory = 100 * (1 - size["MemAvailable"] / size["MemTotal"])
        swap = 100 * (1 - size["SwapFree"] / size["SwapTotal"]) if size.get("SwapTotal") else 0.0
    return {"cpu_vm_percent": memory, "cpu_swap_percent": swap, "cpu_process_bytes": float(resident)}


def _psutil() -> Any:  # noqa: ANN401 - an optional package
    """Return psutil where it is installed: it knows where there is no /proc."""
    if importlib.util.find_spec("psutil") is None:
        return None
    return importlib.import_module("psutil")


def _cpu_memory() -> tuple[int, ...]:
    if not hasattr(os, "sysconf"):
        return ()
    return (os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),)


def _tpu_count() -> int:
    if importlib.util.find_spec("torch_xla") is None:
        return 0
    from torch_xla._internal import tpu  # type: ignore[import-not-found,unused-ignore]  # optional package

    return int(tpu.num_available_devices())


def _hpu_count() -> int:
    if importlib.util.find_spec("habana_frameworks") is None:
        return 0
    from habana_frameworks.torch import hpu  # type: ignore[import-not-found,unused-ignore]  # optional package

    return int(hpu.device_count())


def _ipu_count() -> int:
    if importlib.util.find_spec("poptorch") is None:
        return 0
    import poptorch  # type: ignore[import-not-found,unused-ignore]  # optional package

    # poptorch tells only whether a number of IPUs can be had; pods come in powers of two.
    return max((n for n in (1, 2, 4, 8, 16, 32, 64) if poptorch.ipuHardwareIsAvailable(n)), default=0)
