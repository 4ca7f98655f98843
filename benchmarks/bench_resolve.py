"""How long one resolution takes: the median of many, in one run."""

from __future__ import annotations

import contextlib
import statistics
import time

import drivetrain as dt

ROUNDS = 500
QUESTIONS = {
    "nothing said": {},
    "ddp on 4": {"devices": 4, "strategy": "ddp"},
    "fsdp+tp on 8": {"devices": 8, "strategy": "fsdp+tp(size=2)", "precision": "bf16-mixed"},
    "an error with hints": {"devices": 9, "strategy": "ddp", "precision": "bf16-mixed"},
}


def main() -> None:
    """Print the median of each question in milliseconds; the design asks for less than 1 ms a plan."""
    machine = dt.Machine(cuda=8)
    for name, flags in QUESTIONS.items():
        times = []
        for _ in range(ROUNDS):
            start = time.perf_counter()
            with contextlib.suppress(dt.PlanError):
                dt.plan(machine=machine, **flags)
            times.append(time.perf_counter() - start)
        print(f"{name:<20} {statistics.median(times) * 1e3:.2f} ms")


if __name__ == "__main__":
    main()
