"""How long two ranks take to be in their first step, and the script to its end, by who starts them.

``./scripts/bench launch`` prints the median over rounds, and of the ratio to torchrun within a round; all
take turns. Each is one step of a small model on two processes with gloo, from the start of Python on.
``--write`` puts the table into docs/performance.md.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

from launch.task import RANKS

_HERE = Path(__file__).parent / "launch"
_PAGE = Path(__file__).parents[1] / "docs" / "performance.md"
_BEGIN, _END = "<!-- launch: ./scripts/bench launch --write -->\n", "<!-- end of launch -->\n"
_TORCHRUN = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={RANKS}"]
_TRAINED, _BY_HAND = str(_HERE / "trained.py"), str(_HERE / "by_hand.py")
REFERENCE = "torchrun, a loop by hand"
WAYS = {
    REFERENCE: [*_TORCHRUN, _BY_HAND],
    "torchrun, drivetrain": [*_TORCHRUN, _TRAINED, "drivetrain", "auto"],
    **{
        f"drivetrain, {launcher}": [_TRAINED, "drivetrain", launcher]
        for launcher in ("fork", "forkserver", "spawn", "subprocess")
    },
    **{
        f"Lightning, {strategy}": [_TRAINED, "lightning", strategy]
        for strategy in ("ddp", "ddp_spawn", "ddp_fork")
    },
}


def start(command: list[str]) -> tuple[float, float]:
    """Return the seconds until the last rank is in its step, and until the script has ended."""
    with tempfile.TemporaryDirectory() as folder:
        variables = {**os.environ, "BENCH_FOLDER": folder, "OMP_NUM_THREADS": "1"}
        variables.pop("PYTHONDONTWRITEBYTECODE", None)
        begun = time.time()
        subprocess.run([sys.executable, *command], check=True, env=variables, capture_output=True)
        ended = time.time()
        told = [float(path.read_text()) for path in Path(folder).iterdir()]
    if len(told) != RANKS:
        raise SystemExit(f"{' '.join(command)}: {len(told)} ranks came of {RANKS}")
    return max(told) - begun, ended - begun


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--write", action="store_true", help="put the table into docs/performance.md")
    told = parser.parse_args()
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in WAYS}
    for number in range(told.rounds + 1):
        for name, command in WAYS.items():
            taken = start(command)
            if number:  # the first round lets Python write its bytecode, and warms the disk's cache
                found[name].append(taken)
    rows = ["| started by | first step, s | ratio | whole script, s | ratio |", "|---|---:|---:|---:|---:|"]
    for name, times in found.items():
        cells = []
        for at in (0, 1):
            ratios = [mine[at] / base[at] for mine, base in zip(times, found[REFERENCE], strict=True)]
            cells += [
                f"{statistics.median(one[at] for one in times):.2f}",
                f"{statistics.median(ratios):.2f}",
            ]
        rows.append(f"| {name} | {' | '.join(cells)} |")
    packages = f"torch {version('torch')}, lightning {version('lightning')}"
    text = "\n".join(
        [f"{packages}; {RANKS} ranks on {os.cpu_count()} cores; {told.rounds} rounds.", "", *rows]
    )
    print(text)
    if told.write:
        before, rest = _PAGE.read_text().split(_BEGIN)
        _PAGE.write_text(f"{before}{_BEGIN}\n{text}\n\n{_END}{rest.split(_END)[1]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
