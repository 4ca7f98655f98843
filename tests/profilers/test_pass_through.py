from __future__ import annotations

import drivetrain as dt


def test_nothing_is_measured() -> None:
    none = dt.PassThroughProfiler()
    none.stop("never started")
    with none.profile("x"):
        pass
    assert none.summary() == ""
