"""A plan as text that a person reads: what was decided, who decided it, and why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from drivetrain.base.errors import Notice
from drivetrain.base.origin import Sourced

HEADER = ("flag", "value", "from", "because")


def rows(
    decided: Mapping[str, object], sources: Mapping[str, Sourced[Any]]
) -> list[tuple[str, str, str, str]]:
    """Return one row a decision: flag, value, origin, reason."""
    ids = decided["device_ids"]
    assert isinstance(ids, tuple)  # noqa: S101 - ours: a plan's own field
    layout = decided["layout"]
    assert isinstance(layout, Mapping)  # noqa: S101 - ours: a plan's own field
    shown = {
        "accelerator": decided["accelerator"],
        "devices": f"{len(ids)} ({_ids(ids)})",
        "num_nodes": decided["num_nodes"],
        "world_size": decided["world_size"],
        "strategy": decided["strategy"],
        "layout": " x ".join(f"{axis}={size}" for axis, size in layout.items() if size > 1) or "one rank",
        "launcher": decided["launcher"],
        "environment": decided["environment"],
        "process_group_backend": decided["process_group_backend"],
        "precision": decided["precision"],
        "checkpoint_io": decided["checkpoint_io"],
        "layer_sync": decided["layer_sync"],
    }
    return [
        (name, str(value), sources[name].origin.word, sources[name].reason)
        if name in sources
        else (name, str(value), "", "")
        for name, value in shown.items()
    ]


def explain(
    decided: Mapping[str, object], sources: Mapping[str, Sourced[Any]], notices: tuple[Notice, ...]
) -> str:
    """Lay the rows out in columns, and add what should be said in another way."""
    table = [HEADER, *rows(decided, sources)]
    widths = [max(len(row[column]) for row in table) for column in range(3)]
    lines = [
        "  ".join([*(cell.ljust(wide) for cell, wide in zip(row, widths, strict=False)), row[3]]).rstrip()
        for row in table
    ]
    return "\n".join([*lines, *(f"note: {notice.message}" for notice in notices)])


_MOST_IDS = 16


def _ids(ids: tuple[int, ...]) -> str:
    is_run = ids == tuple(range(ids[0], ids[0] + len(ids)))
    if is_run and ids[-1] - ids[0] > 1:
        return f"{ids[0]}-{ids[-1]}"
    return (
        ",".join(map(str, ids))
        if len(ids) <= _MOST_IDS
        else f"{','.join(map(str, ids[: _MOST_IDS - 1]))},..."
    )
