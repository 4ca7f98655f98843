from __future__ import annotations

from drivetrain.events import Watch


def test_what_is_not_watched_comes_back_itself() -> None:
    items = iter([1])
    assert Watch().call(len, "len") is len
    assert Watch().each(items, "next") is items
    assert Watch().steps([object()]) == []
