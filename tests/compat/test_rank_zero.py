from __future__ import annotations

import logging

import pytest

from drivetrain.compat import rank_zero
from drivetrain.compat.known_errors import LightningDeprecationWarning


def test_rank_0_runs_and_speaks(caplog):
    assert rank_zero.rank_zero_only.rank == 0
    assert rank_zero.rank_zero_only(lambda value: value + 1)(2) == 3
    with pytest.warns(UserWarning, match="attention") as found:
        rank_zero.rank_zero_warn("attention")
    assert found[0].filename == __file__
    with pytest.warns(LightningDeprecationWarning):
        rank_zero.rank_zero_deprecation("old")
    with caplog.at_level(logging.DEBUG, "drivetrain"):
        rank_zero.rank_zero_info("one %s", 1)
        rank_zero.rank_zero_debug("two")
    assert caplog.messages == ["one 1", "two"]


def test_other_ranks_do_not(monkeypatch):
    for name, value in {
        "RANK": "1", "LOCAL_RANK": "1", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "GROUP_RANK": "0",
        "MASTER_ADDR": "localhost", "MASTER_PORT": "1", "TORCHELASTIC_RUN_ID": "a",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    assert rank_zero.rank_zero_only.rank == 1
    assert rank_zero.rank_zero_only(lambda: 3)() is None
    assert rank_zero.rank_zero_only(lambda: 3, default=4)() == 4
    rank_zero.rank_zero_warn("nobody sees it")


def test_a_message_is_warned_of_once():
    cache = rank_zero.WarningCache()
    with pytest.warns(UserWarning, match="a") as found:
        cache.warn("a")
    assert len(found) == 1
    cache.warn("a")  # a second warning would be an error here
    with pytest.warns(LightningDeprecationWarning):
        cache.deprecation("b")
    cache.info("c")
    assert cache == {"a", "b", "c"}
    assert rank_zero.rank_prefixed_message("text", 3) == "[rank: 3] text"
    assert rank_zero.rank_prefixed_message("text", None) == "text"
