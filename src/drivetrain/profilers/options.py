"""The arguments of torch.profiler that PyTorchProfiler hands on, checked before a run."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import torch

from drivetrain.base.text import listed, nearest
from drivetrain.profilers.profiler import bad_argument

SORT_KEYS = (
    "cpu_time",
    "cpu_time_total",
    "self_cpu_time_total",
    "cpu_memory_usage",
    "self_cpu_memory_usage",
    "device_time",
    "device_time_total",
    "self_device_time_total",
    "device_memory_usage",
    "self_device_memory_usage",
    "count",
)
"""What a report can be sorted by; ``cuda`` for ``device`` is the older spelling of torch."""


def check_options(owner: object, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return what goes to torch.profiler.profile.

    Raises:
        ProfilerError [profiler.bad-argument]: torch's profiler takes no such argument.
    """
    known = [name for name in inspect.signature(torch.profiler.profile).parameters if name != "use_cuda"]
    for name, value in options.items():
        if name not in known:
            close = nearest(name, known)
            raise bad_argument(
                owner,
                name,
                value,
                f"no argument of torch.profiler.profile, which takes {listed(known)}",
                f"did you mean {close}=...?" if close else f"leave {name} out",
            )
        if name in ("schedule", "on_trace_ready") and value is not None and not callable(value):
            raise bad_argument(owner, name, value, "a function", f"pass {name}=torch.profiler.schedule(...)")
    return dict(options)


def check_sort_key(owner: object, key: object) -> str | None:
    """Return the key in torch's spelling of today; None for none.

    Raises:
        ProfilerError [profiler.bad-argument]: a report cannot be sorted by it.
    """
    if key is None:
        return None
    found = key.replace("cuda", "device") if isinstance(key, str) else key
    if found not in SORT_KEYS:
        close = nearest(str(key), SORT_KEYS)
        hint = f"did you mean {close!r}?" if close else "pass sort_by_key='cpu_time_total'"
        raise bad_argument(owner, "sort_by_key", key, f"one of {listed(SORT_KEYS)}", hint)
    return str(found)
