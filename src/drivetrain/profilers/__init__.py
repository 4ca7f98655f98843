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

from drivetrain.base.loading import at_home

__getattr__, __dir__ = at_home(__name__)
