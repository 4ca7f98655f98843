"""Floor 3: hardware. Each file is one kind of device.

::

    accelerator.py   Accelerator: the interface
    cpu.py           CPUAccelerator
    cuda.py          CUDAAccelerator
    memory.py        whether an error says that memory ran out
    peaks.py         how many operations a second GPUs are promised to do
"""

from drivetrain.accelerators.accelerator import Accelerator
from drivetrain.accelerators.cpu import CPUAccelerator
from drivetrain.accelerators.cuda import CUDAAccelerator

__all__ = ["Accelerator", "CPUAccelerator", "CUDAAccelerator"]
