from __future__ import annotations

from pathlib import Path
from typing import Any

import drivetrain as dt
from tests.loops.models import Regression, loader, quiet


class Counting(dt.WrappingCheckpointIO):
    """Adds something to what is saved, and takes it off again."""

    saved = 0

    def save(self, checkpoint: dict[str, Any], path: Any) -> None:
        self.saved += 1
        super().save({**checkpoint, "number": self.saved}, path)


def test_it_stands_for_what_is_inside(tmp_path: Path) -> None:
    storage, inner = Counting(), dt.LocalCheckpointIO()
    assert storage.facts is inner.facts
    assert not storage.is_deferred
    storage.save({}, tmp_path / "a.ckpt")
    assert inner.load(tmp_path / "a.ckpt") == storage.load(tmp_path / "a.ckpt") == {"number": 1}
    storage.wait()
    storage.remove(tmp_path / "a.ckpt")
    storage.teardown()
    assert not [*tmp_path.iterdir()]


def test_it_stands_for_one_that_writes_later_too(tmp_path: Path) -> None:
    storage = Counting(dt.AsyncCheckpointIO())
    assert storage.is_deferred
    assert storage.facts.name == "async"
    trainer = quiet(max_epochs=3, callbacks=[dt.ModelCheckpoint(tmp_path)], plugins=[storage])
    trainer.fit(Regression(), loader(8))
    (path,) = tmp_path.iterdir()
    assert storage.load(path)["number"] == 3
