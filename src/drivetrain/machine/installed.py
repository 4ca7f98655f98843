"""The only reader of installed packages: versions, and what they register by entry point."""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util


@functools.cache
def entry_points(group: str) -> tuple[importlib.metadata.EntryPoint, ...]:
    """Return the entry points of a group such as ``drivetrain.strategies``, in order of name."""
    return tuple(sorted(importlib.metadata.entry_points(group=group), key=lambda point: point.name))


def version(package: str) -> str | None:
    """Return the installed version of a distribution, or None."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def has_module(name: str) -> bool:
    """Whether a top-level module can be imported, without importing it."""
    return importlib.util.find_spec(name) is not None
