from __future__ import annotations

import gc
import sys
import threading
from pathlib import Path

import pytest

from drivetrain.base.loading import Later, load

SLOW = """
import gc, time
time.sleep({pause})
WAS_ON = gc.isenabled()
"""


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, pause in (("loaded_first", 0.05), ("loaded_last", 0.2)):
        (tmp_path / f"{name}.py").write_text(SLOW.format(pause=pause))
    (tmp_path / "loaded_badly.py").write_text("raise ValueError('within')")
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.usefixtures("made")
def test_the_collector_waits_until_the_last_thread_has_loaded() -> None:
    found = {}
    names = ("loaded_first", "loaded_last")
    threads = [
        threading.Thread(target=lambda name=name: found.setdefault(name, load(name))) for name in names
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [found[name].WAS_ON for name in names] == [False, False]
    assert gc.isenabled()


@pytest.mark.usefixtures("made")
def test_it_goes_on_as_it_was_after_a_failure_and_where_it_was_off() -> None:
    with pytest.raises(ValueError, match="within"):
        load("loaded_badly")
    assert gc.isenabled()
    gc.disable()
    try:
        load("loaded_first")
        assert not gc.isenabled()
    finally:
        gc.enable()


@pytest.mark.usefixtures("made")
def test_a_module_is_loaded_when_something_of_it_is_used() -> None:
    sys.modules.pop("loaded_first", None)
    module = Later("loaded_first")
    assert "loaded_first" not in sys.modules
    assert module.WAS_ON is False
    assert "loaded_first" in sys.modules
    with pytest.raises(AttributeError, match=r"'loaded_first' has no attribute 'nothing'"):
        _ = module.nothing


def test_a_package_has_the_public_names_that_are_at_home_in_it() -> None:
    import drivetrain as dt
    from drivetrain import callbacks, loggers, profilers

    assert callbacks.ModelCheckpoint is dt.ModelCheckpoint
    assert loggers.CSVLogger is dt.CSVLogger
    assert profilers.Profiler is dt.Profiler
    for package in (callbacks, loggers, profilers):
        assert dir(package)
        assert all(getattr(package, name) is getattr(dt, name) for name in dir(package))
    with pytest.raises(AttributeError, match=r"drivetrain.callbacks' has no attribute 'CSVLogger'"):
        _ = callbacks.CSVLogger
