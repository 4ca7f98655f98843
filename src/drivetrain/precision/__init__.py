"""Floor 3: number formats.

::

    precision.py   Precision: the interface
    true.py        TruePrecision: one format throughout
    mixed.py       MixedPrecision: float32 parameters, autocast arithmetic, a scaled loss with float16
    report.py      PrecisionReport: the formats that a run's tensors have
"""

from drivetrain.precision.mixed import MixedPrecision
from drivetrain.precision.precision import Precision
from drivetrain.precision.report import PrecisionReport, PrecisionRow, report
from drivetrain.precision.true import TruePrecision

__all__ = ["MixedPrecision", "Precision", "PrecisionReport", "PrecisionRow", "TruePrecision", "report"]
