"""Floor 1: every hook by name, when it is called and with what, before anybody implements it.

::

    hook.py        Hook: one row; @unused marks the empty methods that only document a hook
    table.py       HOOKS: all rows, in the order in which a run calls them; OVERRIDES: what may be replaced
    registry.py    checks that what a class overrides are hooks, and names the nearest
    watch.py       Watch: what a profiler sees of a run
    dispatcher.py  Dispatcher: who overrides what, looked up once before the run
"""

from drivetrain.events.dispatcher import Dispatcher
from drivetrain.events.hook import Hook, is_unused, unused
from drivetrain.events.registry import check_hooks
from drivetrain.events.table import HOOKS, OVERRIDES
from drivetrain.events.watch import Watch

__all__ = ["HOOKS", "OVERRIDES", "Dispatcher", "Hook", "Watch", "check_hooks", "is_unused", "unused"]
