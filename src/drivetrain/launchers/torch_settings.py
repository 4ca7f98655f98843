"""torch's process-wide settings, so that every rank computes as the caller would."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any


def read_settings() -> dict[str, Any]:
    """Return the settings of this process, as data that pickles; empty where torch is not loaded."""
    torch = sys.modules.get("torch")
    if torch is None:
        return {}
    found = {}
    for name, (get, _) in _settings(torch).items():
        with contextlib.suppress(RuntimeError):  # torch refuses to read one that was set in its newer way
            found[name] = get()
    return found


def apply_settings(settings: dict[str, Any]) -> None:
    """Set what `read_settings` returned, where it is another than torch's own now."""
    import torch

    for name, (get, put) in _settings(torch).items():
        with contextlib.suppress(RuntimeError):
            if name in settings and get() != settings[name]:
                put(settings[name])


def _settings(torch: ModuleType) -> dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]]:
    backends, fill = torch.backends, torch.utils.deterministic
    return {
        "default_dtype": (torch.get_default_dtype, torch.set_default_dtype),
        "deterministic": (
            lambda: (
                torch.are_deterministic_algorithms_enabled(),
                torch.is_deterministic_algorithms_warn_only_enabled(),
            ),
            lambda both: torch.use_deterministic_algorithms(both[0], warn_only=both[1]),
        ),
        "fill_uninitialized_memory": _attribute(fill, "fill_uninitialized_memory"),
        "float32_matmul_precision": (
            torch.get_float32_matmul_precision,
            torch.set_float32_matmul_precision,
        ),
        "cuda.matmul.allow_tf32": _attribute(backends.cuda.matmul, "allow_tf32"),
        "cudnn.allow_tf32": _attribute(backends.cudnn, "allow_tf32"),
        "cudnn.benchmark": _attribute(backends.cudnn, "benchmark"),
        "cudnn.deterministic": _attribute(backends.cudnn, "deterministic"),
        "cudnn.enabled": _attribute(backends.cudnn, "enabled"),
        "mkldnn.enabled": _attribute(backends.mkldnn, "enabled"),
        "detect_anomaly": (
            lambda: (torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()),
            lambda both: torch.autograd.set_detect_anomaly(*both),
        ),
    }


def _attribute(thing: object, name: str) -> tuple[Callable[[], Any], Callable[[Any], Any]]:
    return (lambda: getattr(thing, name)), (lambda value: setattr(thing, name, value))
