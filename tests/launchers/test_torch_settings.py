from __future__ import annotations

import pickle

import pytest
import torch

from drivetrain.launchers.torch_settings import apply_settings, read_settings


@pytest.fixture(autouse=True)
def _restored():
    before = read_settings()
    yield
    apply_settings(before)


def test_settings_go_round() -> None:
    own = read_settings()
    torch.set_default_dtype(torch.float64)
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.set_float32_matmul_precision("high")
    torch.autograd.set_detect_anomaly(True, check_nan=False)
    torch.backends.cudnn.benchmark = True
    changed = pickle.loads(pickle.dumps(read_settings()))  # noqa: S301 - our own bytes
    assert {name for name in own if own[name] != changed[name]} >= {
        "default_dtype",
        "deterministic",
        "float32_matmul_precision",
        "detect_anomaly",
        "cudnn.benchmark",
    }
    apply_settings(own)
    assert torch.zeros(1).dtype is torch.float32
    assert read_settings() == own
    apply_settings(changed)
    assert torch.zeros(1).dtype is torch.float64
    assert read_settings() == changed
