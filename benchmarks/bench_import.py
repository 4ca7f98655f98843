"""What importing drivetrain costs: torch alone, drivetrain alone, and every public name over torch.

Each figure is the median of several fresh processes, without the start of Python; a first one, not
counted, leaves the bytecode, which an installed package has as well. Fails if our names load
torch._dynamo or sympy, which torch itself leaves for later.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys

RUNS = 7
UNWANTED = ("torch._dynamo", "sympy")
SCRIPT = """
import json, sys, time
seconds = {{}}
start = time.perf_counter()
{first}
seconds["first"] = time.perf_counter() - start
before = set(sys.modules)
start = time.perf_counter()
{second}
seconds["second"] = time.perf_counter() - start
added = set(sys.modules) - before
print(json.dumps({{"seconds": seconds, "before": list(before), "added": list(added)}}))
"""
PUBLIC = "import drivetrain\nfor name in drivetrain.__all__: getattr(drivetrain, name)"


def measure(first: str, second: str = "") -> tuple[float, float, set[str], set[str]]:
    """Return each step's median seconds, the modules after the first, and those added by the second."""
    script = SCRIPT.format(first=first, second=second)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    runs = []
    for _ in range(RUNS + 1):
        done = subprocess.run(
            [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
        )
        runs.append(json.loads(done.stdout))
    del runs[0]
    steps = [statistics.median(run["seconds"][step] for run in runs) for step in ("first", "second")]
    return steps[0], steps[1], set(runs[0]["before"]), set(runs[0]["added"])


def main() -> int:
    """Print the table; return 1 if something unwanted was loaded."""
    ours, _, loaded, _ = measure("import drivetrain")
    torch, added, _, modules = measure("import torch", PUBLIC)
    bad = sorted(name for name in modules if name.startswith(UNWANTED))
    rows = [
        ("import torch", f"{torch * 1000:8.0f} ms"),
        ("import drivetrain", f"{ours * 1000:8.0f} ms   {'loads' if 'torch' in loaded else 'without'} torch"),
        ("every public name, after torch", f"{added * 1000:8.0f} ms   {added / torch:.1%} of torch"),
    ]
    for name, text in rows:
        print(f"{name:<32} {text}")
    if bad:
        print(f"loaded by drivetrain: {', '.join(bad[:5])} ({len(bad)} modules)", file=sys.stderr)
    return 1 if bad or "torch" in loaded else 0


if __name__ == "__main__":
    sys.exit(main())
