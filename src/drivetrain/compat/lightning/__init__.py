"""Lightning's public modules with our objects: ``import drivetrain.compat.lightning as L``.

After `install`, ``import lightning`` and ``import pytorch_lightning`` find the same modules, so that code
which imports Lightning runs on drivetrain unmodified; ``python -m drivetrain.compat.lightning script.py``
runs a script that way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from drivetrain.compat.mirror import grow, install, uninstall
from drivetrain.compat.running import learn_scripts
from drivetrain.compat.table import LIGHTNING

__all__ = ["install", "uninstall"]

if TYPE_CHECKING:
    from typing import Any

    def __getattr__(name: str) -> Any: ...


del TYPE_CHECKING
learn_scripts()
grow(__name__, LIGHTNING)
