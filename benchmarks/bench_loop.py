"""A loop by hand, drivetrain, Lightning, Fabric and Accelerate: the same tasks, in one run, interleaved.

``./scripts/bench loop`` prints for each the processor time of a step and its ratio to the loop by hand
(the median over rounds of the ratio within a round), then the peak memory of a process that trains with
one of them, on Linux.
Processor time is disturbed by other load on the machine less than the clock is. ``--write`` puts the tables
into docs/performance.md.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import torch
from loop.contenders import BY_HAND, LOOPS, MODES, TRAINERS, Contender, by_hand, quiet
from loop.tasks import TASKS, Task

_PAGE = Path(__file__).parents[1] / "docs" / "performance.md"
_BEGIN, _END = "<!-- figures: ./scripts/bench loop --write -->\n", "<!-- end of figures -->\n"
_KINDS: dict[str, tuple[Contender, str]] = {
    BY_HAND: (by_hand, "bare"),
    **{f"{name}, {mode}": (train, mode) for name, train in TRAINERS.items() for mode in MODES},
    **{name: (train, "bare") for name, train in LOOPS.items()},
}
_STATUS = Path("/proc/self/status")
_IN_MEMORY = [f"{name}, bare" for name in TRAINERS] + list(LOOPS)


class Terminal(io.StringIO):
    """Takes what is printed as a terminal does, so that bars are drawn, and shows nothing."""

    def isatty(self) -> bool:
        """Say yes."""
        return True

    def write(self, text: str) -> int:
        """Forget it."""
        return len(text)


def train(name: str, task: Task) -> float:
    """Return the processor seconds of a step."""
    contender, mode = _KINDS[name]
    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.redirect_stdout(Terminal()),
        contextlib.redirect_stderr(Terminal()),
    ):
        clock = contender(task, mode, folder)
    if clock.count != task.steps:
        raise SystemExit(f"{name} took {clock.count} steps of {task.steps}")
    return clock.per_step


def times(task: Task, rounds: int) -> list[str]:
    """Return the rows of one task's table."""
    found: dict[str, list[float]] = {name: [] for name in _KINDS}
    for number in range(rounds + 1):
        for name, seconds in found.items():
            taken = train(name, task)
            if number:  # the first round warms up
                seconds.append(taken)
    rows = [f"| {task.name} | us a step | ratio | quartiles |", "|---|---:|---:|---:|"]
    for name, seconds in found.items():
        ratios = [mine / base for mine, base in zip(seconds, found[BY_HAND], strict=True)]
        low, middle, high = statistics.quantiles(ratios, n=4, method="inclusive")
        per_step = statistics.median(seconds) * 1e6
        rows.append(f"| {name} | {per_step:.0f} | {middle:.2f} | {low:.2f} to {high:.2f} |")
    return rows


def memory(task: Task, rounds: int) -> list[str]:
    """Return the rows of the table of peak memory, each figure of a process of its own.

    The first round only lets Python write its bytecode, as an installer does: compiling takes memory.
    """
    found: dict[str, list[int]] = {name: [] for name in [BY_HAND, *_IN_MEMORY]}
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    for number in range(rounds + 1):
        for name, peaks in found.items():
            command = [sys.executable, __file__, "--alone", name, "--task", task.name]
            done = subprocess.run(command, check=True, capture_output=True, text=True, env=variables)
            peaks.extend([json.loads(done.stdout)] if number else [])
    rows = [f"| {task.name} | peak MiB | ratio |", "|---|---:|---:|"]
    for name, peaks in found.items():
        ratio = statistics.median(mine / base for mine, base in zip(peaks, found[BY_HAND], strict=True))
        rows.append(f"| {name} | {statistics.median(peaks) / 1024:.0f} | {ratio:.2f} |")
    return rows


def peak() -> int:
    """Return this process's greatest resident set, in KiB; getrusage's begins with the parent's."""
    return next(
        int(line.split()[1]) for line in _STATUS.read_text().splitlines() if line.startswith("VmHWM:")
    )


def _tables(show: Callable[[list[str]], None], rounds: int, wanted: list[Task]) -> None:
    packages = ", ".join(f"{name} {version(name)}" for name in ("torch", "lightning", "accelerate"))
    python = f"Python {platform.python_version()}"
    show([f"{packages}; {python}, one thread on {platform.machine()}; {rounds} rounds.", "", "Time:", ""])
    for task in wanted:
        show([*times(task, rounds), ""])
    if not _STATUS.exists():
        show(["Memory: not measured, as this system has no " + str(_STATUS)])
        return
    show(["Memory:", ""])
    for task in dict.fromkeys((wanted[0], wanted[-1])):
        show([*memory(task, max(1, rounds // 3)), ""])


def main() -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--task", help="only the tasks whose name contains this")
    parser.add_argument("--write", action="store_true", help="put the tables into docs/performance.md")
    parser.add_argument("--alone", help=argparse.SUPPRESS)
    told = parser.parse_args()
    if told.rounds < 2:  # noqa: PLR2004 - quartiles lie between values
        parser.error(f"--rounds {told.rounds}: a median with quartiles needs 2 or more")
    torch.set_num_threads(1)
    wanted = [task for task in TASKS if told.task is None or told.task in task.name]
    if not wanted:
        parser.error(f"no task contains {told.task!r}; there are: {', '.join(task.name for task in TASKS)}")
    if told.alone:
        quiet()
        train(told.alone, wanted[0])
        print(peak())
        return 0
    lines: list[str] = []

    def show(rows: list[str]) -> None:
        lines.extend(rows)
        print("\n".join(rows), flush=True)

    quiet()
    _tables(show, told.rounds, wanted)
    if told.write:
        before, rest = _PAGE.read_text().split(_BEGIN)
        after = rest.split(_END)[1]
        _PAGE.write_text(before + _BEGIN + "\n" + "\n".join(lines).strip() + "\n\n" + _END + after)
    return 0


if __name__ == "__main__":
    sys.exit(main())
