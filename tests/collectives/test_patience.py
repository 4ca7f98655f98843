from __future__ import annotations

import threading
import time

from drivetrain.collectives import patience


def test_a_long_wait_is_told_once_and_a_short_one_not(monkeypatch, capsys) -> None:
    monkeypatch.setattr(patience, "PATIENCE_S", 0.05)
    before = threading.active_count()
    with patience.patient(1, "gather_object"):
        time.sleep(0.15)
    assert capsys.readouterr().err.count("rank 1 has waited 0.05 s in gather_object") == 1
    monkeypatch.setattr(patience, "PATIENCE_S", 30.0)
    with patience.patient(1, "gather_object"):
        pass
    time.sleep(0.02)
    assert capsys.readouterr().err == ""
    assert threading.active_count() == before
