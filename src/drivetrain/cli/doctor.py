"""``drivetrain doctor``: what probe sees, and what is missing for which strategy."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping
from typing import Any

from drivetrain._version import __version__
from drivetrain.machine import installed
from drivetrain.machine.snapshot import Machine
from drivetrain.resolver.catalogue import Catalogue, counted, in_force
from drivetrain.resolver.choose import is_there
from drivetrain.resolver.fits import strategy_fits

_PACKAGES = ("torch", "numpy", "fsspec", "cloudpickle", "rich", "jsonargparse")
_OTHER_VARIABLES = ("CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS", "MASTER_ADDR", "MASTER_PORT", "NODE_RANK")
_PREFIXES = ("DRIVETRAIN_", "NCCL_", "GLOO_", "TORCH_NCCL_", "PJRT_", "XLA_")
_GIB = 2**30


def run(_options: Mapping[str, Any]) -> int:
    """Print the report; always 0: to look is no failure."""
    catalogue = in_force()
    counts = counted(catalogue)
    machine = Machine.probe().with_devices(counts)
    for title, lines in report(machine, catalogue):
        print(title)
        for line in lines:
            print(f"  {line}")
    return 0


def report(machine: Machine, catalogue: Catalogue) -> Iterator[tuple[str, list[str]]]:
    """Yield each part of the report: its title and lines."""
    yield "versions", _versions()
    yield "devices", _devices(machine, catalogue)
    yield "variables", _variables(machine, catalogue)
    yield "strategies", _strategies(machine, catalogue)
    yield "precisions", _precisions(catalogue)
    if catalogue.broken:
        yield "installed, but not usable", [f"{name}: {why}" for name, why in catalogue.broken.items()]


def _versions() -> list[str]:
    ours = [f"drivetrain {__version__}", f"python {platform.python_version()}"]
    return ours + [f"{name} {installed.version(name) or 'not installed'}" for name in _PACKAGES]


def _devices(machine: Machine, catalogue: Catalogue) -> list[str]:
    def line(name: str, count: str) -> str:
        sizes = machine.memory_bytes.get(name, ())
        memory = ", ".join(f"{size / _GIB:.1f} GiB" for size in sizes)
        return f"{name:<6} {count}" + (f", memory {memory}" if memory else "")

    there = [line("cpu", f"{machine.num_cpus} cores on {machine.platform}")]
    others = (facts.name for facts in catalogue.accelerator_order if not facts.counts_processes)
    there += [line(name, str(machine.count(name))) for name in others]
    where = "a notebook" if machine.notebook else "a plain process"
    used = ", ".join(sorted(machine.touched)) or "none"
    return [
        *there,
        f"this is {where}; fork is {'there' if machine.fork else 'not there'}; devices in use here: {used}",
    ]


def _variables(machine: Machine, catalogue: Catalogue) -> list[str]:
    named = {
        name
        for facts in catalogue.environment_order
        for dialect in facts.dialects
        for name in dialect.values()
    }
    named |= {name for facts in catalogue.environment_order for name in (*facts.also, *facts.unless)}
    named |= set(_OTHER_VARIABLES)
    found = [
        f"{name}={value}"
        for name, value in sorted(machine.variables.items())
        if name in named or name.startswith(_PREFIXES)
    ]
    return found or ["none that matters is set"]


def _strategies(machine: Machine, catalogue: Catalogue) -> list[str]:
    lines = []
    for name, facts in sorted(catalogue.strategies.items()):
        able = [other for other in catalogue.accelerator_order if strategy_fits(facts, other)]
        lacking = [
            f"pip install {package}" for package in facts.packages if installed.version(package) is None
        ]
        if not any(is_there(machine, other) for other in able):
            lacking.append("hardware: " + " or ".join(other.name for other in able))
        if not facts.runtime:
            lacking.append("its run-time comes with a later release")
        lines.append(f"{name:<10} " + ("ready" if not lacking else "needs " + "; ".join(lacking)))
    return lines


def _precisions(catalogue: Catalogue) -> list[str]:
    lines = []
    for name, facts in sorted(catalogue.precisions.items()):
        lacking = [
            f"pip install {package}" for package in facts.packages if installed.version(package) is None
        ]
        lacking += [] if facts.runtime else ["its run-time comes with a later release"]
        lines.append(f"{name:<28} " + ("ready" if not lacking else "needs " + "; ".join(lacking)))
    return lines
