"""AdvancedProfiler: which functions each action calls, and how long they take."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any, final

from drivetrain.profilers.files import written_by
from drivetrain.profilers.profiler import Profiler, bad_argument, not_started

if TYPE_CHECKING:
    import cProfile
    import pstats

_RULE = "a number of lines, or a part of them from 0.0 to 1.0"


@final
class AdvancedProfiler(Profiler):
    """Measures each action by Python's own cProfile; an action's report has that of the actions within it.

    ``line_count_restriction`` is how many functions of each action the report shows: a number, or a part
    of them. ``dump_stats`` also writes ``<stage>-<filename>-<rank>-<action>.prof`` for each action, which
    `pstats` and viewers read. Every call of a Python function is made slower: compare actions, not runs.

    Raises:
        ProfilerError [profiler.bad-argument]: an argument has a value that it cannot have.
    """

    def __init__(
        self,
        dirpath: str | os.PathLike[str] | None = None,
        filename: str | None = None,
        line_count_restriction: float = 1.0,
        dump_stats: bool = False,
    ) -> None:
        super().__init__(dirpath, filename)
        limit: Any = line_count_restriction
        is_number = isinstance(limit, (int, float)) and not isinstance(limit, bool)
        if not is_number or limit < 0 or (isinstance(limit, float) and limit > 1):
            hint = "pass line_count_restriction=20"
            raise bad_argument(self, "line_count_restriction", limit, _RULE, hint)
        if not isinstance(dump_stats, bool):
            raise bad_argument(self, "dump_stats", dump_stats, "True or False", "pass dump_stats=True")
        self.line_count_restriction, self.dump_stats = limit, dump_stats
        self._running: list[str] = []
        # Python lets one profile run at a time, so each chain of actions within actions has its own, and an
        # action is the sum of the chains that it is in.
        self._profiles: dict[tuple[str, ...], cProfile.Profile] = {}
        self._is_over = False

    def start(self, action_name: str) -> None:
        """Profile this action in place of the one around it."""
        if self._running:
            self._profiles[tuple(self._running)].disable()
        self._running.append(action_name)
        self._resume()

    def stop(self, action_name: str) -> None:
        """Go on with the action around it.

        Raises:
            ProfilerError [profiler.not-started]: it was not started.
        """
        if action_name not in self._running:
            raise not_started(action_name, dict.fromkeys(self._running))
        self._profiles[tuple(self._running)].disable()
        while self._running.pop() != action_name:
            pass
        if self._running:
            self._resume()

    def _resume(self) -> None:
        chain = tuple(self._running)
        profile = self._profiles.get(chain)
        if profile is None:
            import cProfile

            profile = self._profiles[chain] = cProfile.Profile()
        profile.enable()

    def stats(self, action_name: str, stream: IO[Any] | None = None) -> pstats.Stats:
        """Return what cProfile knows of an action and all within it; it prints to ``stream``.

        Raises:
            ProfilerError [profiler.not-started]: there was no such action.
        """
        profiles = [profile for chain, profile in self._profiles.items() if action_name in chain]
        if not profiles:
            raise not_started(action_name, dict.fromkeys(self.actions))
        import pstats

        found = pstats.Stats(profiles[0], stream=stream)
        for profile in profiles[1:]:
            found.add(profile)
        return found

    @property
    def actions(self) -> list[str]:
        """The actions of the last run, in the order in which they began first."""
        return list(dict.fromkeys(name for chain in self._profiles for name in chain))

    def setup(self, stage: str, local_rank: int | None = None, log_dir: str | None = None) -> None:
        """Begin anew, if a run was measured before."""
        super().setup(stage, local_rank, log_dir)
        self._halt()
        if self._is_over:
            self._profiles, self._is_over = {}, False

    def describe(self) -> None:
        """Write the report, and with ``dump_stats`` each action's file."""
        super().describe()
        if self.dump_stats:
            with self._paused():
                for action in self.actions:
                    name = self._file_name(action, ".prof")
                    written_by(self.stats(action).dump_stats, self.folder, name)

    def teardown(self, stage: str | None) -> None:
        """Stop profiling."""
        self._halt()
        self._is_over = True

    def _halt(self) -> None:
        if self._running:
            self._profiles[tuple(self._running)].disable()
            self._running.clear()

    @contextmanager
    def _paused(self) -> Iterator[None]:
        # Reading a profile ends it.
        running = self._profiles[tuple(self._running)] if self._running else None
        if running is not None:
            running.disable()
        try:
            yield
        finally:
            if running is not None:
                running.enable()

    def summary(self) -> str:
        """Return what cProfile prints of each action, the functions that took longest first."""
        parts = [self._title()] if self._profiles else []
        with self._paused():
            for action in self.actions:
                stream = io.StringIO()
                stats = self.stats(action, stream)
                stats.sort_stats("cumulative").print_stats(self.line_count_restriction)
                parts.append(f"Profile stats for: {action}\n{stream.getvalue().rstrip()}\n")
        return "\n".join(parts)

    def __getstate__(self) -> dict[str, Any]:
        """Travel to another rank without what was measured here, which Python cannot pickle."""
        return {**super().__getstate__(), "_profiles": {}, "_running": []}
