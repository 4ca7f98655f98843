"""A logger that keeps what it is told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import drivetrain as dt


class Rows(dt.Logger):
    """Keeps the metrics of each call with their step."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[tuple[int | None, dict[str, float]]] = []

    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        self.rows.append((step, dict(metrics)))

    def log_hyperparams(self, params: Mapping[str, Any], metrics: Any = None) -> None:
        pass

    def named(self, start: str) -> dict[int | None, dict[str, float]]:
        """Return what was logged under names that begin so, by step."""
        found: dict[int | None, dict[str, float]] = {}
        for step, metrics in self.rows:
            mine = {name: value for name, value in metrics.items() if name.startswith(start)}
            if mine:
                found[step] = found.get(step, {}) | mine
        return found
