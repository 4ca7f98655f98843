"""Packages that only one logger needs: asked for when it is made, imported when it is used."""

from __future__ import annotations

from drivetrain.base.errors import BuildError
from drivetrain.machine import installed


def check_installed(logger: str, module: str, extra: str) -> None:
    """Refuse a logger whose package is not installed, before anything runs.

    Raises:
        BuildError [build.package-missing]: names the extra that brings it.
    """
    if not installed.has_module(module):
        raise BuildError(
            "build.package-missing",
            f"{logger} needs {module}, which is not installed",
            values={"logger": logger, "module": module},
            because="this logger does its work through another package",
            hint=f'pip install "drivetrain[{extra}]"',
        )
