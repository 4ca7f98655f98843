"""Floor 3: number formats.

::

    precision.py   Precision: the interface
    true.py        TruePrecision: one format throughout
    mixed.py       MixedPrecision: float32 parameters, autocast arithmetic
"""

from drivetrain.precision.mixed import MixedPrecision
from drivetrain.precision.precision import Precision
from drivetrain.precision.true import TruePrecision

__all__ = ["MixedPrecision", "Precision", "TruePrecision"]
