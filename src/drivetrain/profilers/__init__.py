"""Floor 5: where a run's time goes.

::

    profiler.py      Profiler: the interface; start, stop and the report
    pass_through.py  PassThroughProfiler: none
    simple.py        SimpleProfiler: how long each action takes
    advanced.py      AdvancedProfiler: which functions each action calls, by cProfile
    pytorch.py       PyTorchProfiler: operators and kernels, by torch.profiler
    options.py       the arguments of torch.profiler that PyTorchProfiler checks
    files.py         a report's file, local or remote
    watching.py      what the loops ask to be watched, as a profiler's actions
"""

from drivetrain.profilers.advanced import AdvancedProfiler
from drivetrain.profilers.pass_through import PassThroughProfiler
from drivetrain.profilers.profiler import Profiler
from drivetrain.profilers.pytorch import PyTorchProfiler
from drivetrain.profilers.simple import SimpleProfiler

__all__ = ["AdvancedProfiler", "PassThroughProfiler", "Profiler", "PyTorchProfiler", "SimpleProfiler"]
