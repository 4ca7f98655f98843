"""Floor 6: Engine, the run-time without a loop.

::

    engine.py   Engine: launch, setup, backward, communicate, save, load
    module.py   EngineModule: a module whose forward passes through the strategy
    loader.py   EngineLoader: a loader's batches for one rank, by the data law
    states.py   what save and load do with each kind of object
"""

from drivetrain.engine.engine import Engine
from drivetrain.engine.loader import EngineLoader
from drivetrain.engine.module import EngineModule

__all__ = ["Engine", "EngineLoader", "EngineModule"]
