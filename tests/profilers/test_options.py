from __future__ import annotations

import pytest
import torch

import drivetrain as dt
from drivetrain.profilers.options import SORT_KEYS, check_options, check_sort_key


def test_every_key_sorts_a_report_of_torch() -> None:
    with torch.profiler.profile(profile_memory=True) as profile:
        torch.ones(3).add(1)
    for key in SORT_KEYS:
        assert "aten::add" in profile.key_averages().table(sort_by=key)


def test_keys_of_older_releases_are_read() -> None:
    assert check_sort_key("x", "self_cuda_time_total") == "self_device_time_total"
    assert check_sort_key("x", None) is None


def test_options_are_those_of_torch() -> None:
    assert check_options("x", {"with_flops": True, "schedule": None}) == {
        "with_flops": True,
        "schedule": None,
    }
    with pytest.raises(dt.ProfilerError, match="use_cuda"):
        check_options("x", {"use_cuda": True})
