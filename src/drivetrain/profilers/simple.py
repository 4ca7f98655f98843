"""SimpleProfiler: how long each action takes."""

from __future__ import annotations

import os
import time
from array import array
from typing import Any, final

from drivetrain.modules.summary import table
from drivetrain.profilers.profiler import Profiler, bad_argument, not_started


@final
class SimpleProfiler(Profiler):
    """Times each action by the clock; ``extended`` adds the number of calls and the part of the whole.

    An action's time includes that of the actions within it. A device that computes asynchronously is not
    waited for: its work shows in the action that first needs its result.

    Units:
        recorded_durations: seconds of each call, by action, of the last run.
    Raises:
        ProfilerError [profiler.bad-argument]: an argument has a value that it cannot have.
    """

    def __init__(
        self,
        dirpath: str | os.PathLike[str] | None = None,
        filename: str | None = None,
        extended: bool = True,
    ) -> None:
        super().__init__(dirpath, filename)
        if not isinstance(extended, bool):
            raise bad_argument(self, "extended", extended, "True or False", "pass extended=True")
        self.extended = extended
        self.recorded_durations: dict[str, array[float]] = {}
        self.current_actions: dict[str, list[float]] = {}
        """When each action that runs began; the last is the innermost."""
        self.start_time = time.monotonic()
        self._total_s: float | None = None

    def start(self, action_name: str) -> None:
        """Note the time."""
        self.current_actions.setdefault(action_name, []).append(time.monotonic())

    def stop(self, action_name: str) -> None:
        """Note how long it was.

        Raises:
            ProfilerError [profiler.not-started]: it was not started.
        """
        now = time.monotonic()
        began = self.current_actions.get(action_name)
        if not began:
            raise not_started(action_name, {name: 0 for name, times in self.current_actions.items() if times})
        found = self.recorded_durations.get(action_name)
        if found is None:
            found = self.recorded_durations[action_name] = array("d")
        found.append(now - began.pop())

    def setup(self, stage: str, local_rank: int | None = None, log_dir: str | None = None) -> None:
        """Begin anew, if a run was measured before."""
        super().setup(stage, local_rank, log_dir)
        if self._total_s is not None:
            self.recorded_durations, self.start_time, self._total_s = {}, time.monotonic(), None
        self.current_actions.clear()

    def teardown(self, stage: str | None) -> None:
        """Stop the clock."""
        self._total_s = time.monotonic() - self.start_time

    def summary(self) -> str:
        """Return a table of the actions, those that took longest first."""
        total = time.monotonic() - self.start_time if self._total_s is None else self._total_s
        rows = sorted(
            ((name, len(times), sum(times)) for name, times in self.recorded_durations.items()),
            key=lambda row: -row[2],
        )
        if not rows:
            return ""
        names, counts, sums = zip(("Total", sum(row[1] for row in rows), total), *rows, strict=True)
        mean = ["-", *(f"{time_s / count:.5g}" for _, count, time_s in rows)]
        columns = [("Action", list(names)), ("Mean duration (s)", mean)]
        if self.extended:
            columns.append(("Num calls", [str(count) for count in counts]))
        columns.append(("Total time (s)", [f"{time_s:.5g}" for time_s in sums]))
        if self.extended:
            columns.append(("Percentage %", [f"{100 * time_s / max(total, 1e-9):.5g}" for time_s in sums]))
        return f"{self._title()}\n{table(columns)}\n"

    def __getstate__(self) -> dict[str, Any]:
        """Travel to another rank without what was measured here."""
        return {**super().__getstate__(), "recorded_durations": {}, "current_actions": {}}
