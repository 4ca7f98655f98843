"""LambdaCallback: functions as hooks."""

from __future__ import annotations

from typing import Any, final

from drivetrain.base.text import listed, nearest
from drivetrain.callbacks.callback import Callback
from drivetrain.callbacks.refusal import bad_argument
from drivetrain.events import HOOKS
from drivetrain.events.registry import takes


@final
class LambdaCallback(Callback):
    """Call functions at hooks: ``LambdaCallback(on_train_start=lambda trainer, module: print("begin"))``.

    A function gets what a callback's method of that name gets, after ``self``. Hooks that are not given
    are not called and cost nothing.

    Raises:
        ModuleError [callback.bad-argument]: no hook has that name, or the function cannot be called so.
    """

    def __init__(self, **functions: Any) -> None:
        names = [name for name, hook in HOOKS.items() if hook.on_callback]
        for name, function in functions.items():
            if name not in names:
                close = nearest(name, names)
                raise bad_argument(
                    self,
                    name,
                    function,
                    f"no hook; the hooks are: {listed(names)}",
                    f"did you mean {close}=...?" if close else "give one of the hooks",
                )
            if function is None:
                continue
            wanted = ("trainer", "module", *HOOKS[name].arguments)
            counts = {len(wanted), len(wanted) - wanted.count("dataloader_idx")}
            if not callable(function) or not any(takes(function, count) for count in counts):
                raise bad_argument(
                    self,
                    name,
                    function,
                    f"a function of ({', '.join(wanted)})",
                    f"write it as lambda {', '.join(wanted)}: ...",
                )
            vars(self)[name] = function
