"""Floor 3: number formats.

::

    precision.py     Precision: the interface
    true.py          TruePrecision: one format throughout
    mixed.py         MixedPrecision: float32 parameters, autocast arithmetic, a scaled loss with float16
    float8.py        Float8Precision: mixed, with the products of linear layers in 8-bit floats
    float8_layer.py  a linear layer as torchao's float8 one, and back
    report.py        PrecisionReport: the formats that a run's tensors have
"""

from drivetrain.base.loading import at_home

__getattr__, __dir__ = at_home(__name__)
