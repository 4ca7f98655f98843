"""Floor 4: what users write. On the loaders' and checkpoints' shoulders, below every loop.

::

    module.py          Module: the model and its steps
    attached.py        a module's place in the run that it is in
    hooks.py           every hook of a module, empty
    optimizing.py      manual optimization
    datamodule.py      DataModule: the data and its loaders
    hyperparameters.py arguments of __init__ as plain data
    summary.py         summarize: layers, parameters, sizes, as a table
    flops.py           how many operations a piece of code does
    run.py             Run, Recorder: what a module or callback may ask of the run it is in
"""

from drivetrain.modules.datamodule import DataModule
from drivetrain.modules.module import Module
from drivetrain.modules.run import Run

__all__ = ["DataModule", "Module", "Run"]
