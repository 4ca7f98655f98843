"""Lightning Fabric's public modules with our objects: ``from drivetrain.compat.fabric import Fabric``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from drivetrain.compat.mirror import grow
from drivetrain.compat.table import FABRIC

if TYPE_CHECKING:
    from typing import Any

    def __getattr__(name: str) -> Any: ...


del TYPE_CHECKING
grow(__name__, FABRIC)
