"""Checks a module or callback against the table of hooks before a run."""

from __future__ import annotations

import difflib
import inspect
import warnings
from collections.abc import Iterable

from drivetrain.base.errors import DrivetrainWarning, ModuleError
from drivetrain.events.hook import Hook, is_unused
from drivetrain.events.table import GONE, HOOKS, OVERRIDES, STEPS

_CLOSE = 0.8


def check_hooks(thing: object, base: type) -> None:
    """Refuse methods that look like hooks and would never be called, and hooks that cannot be called.

    Raises:
        ModuleError [module.hook-name]: a name close to a hook's, or a hook of an earlier library.
        ModuleError [module.hook-arguments]: a hook that takes other arguments than it will get.
    """
    is_module = hasattr(base, "training_step")
    for name in _own_names(thing, base):
        if name in GONE:
            raise _unknown(thing, name, GONE[name], "it was removed; nothing calls it")
        if name in HOOKS:
            _check_arguments(thing, name, HOOKS[name], with_trainer=not is_module)
        elif name in OVERRIDES and is_module:
            _check_arguments(thing, name, OVERRIDES[name], with_trainer=False)
        elif name.startswith("on_") or name in _misspelt(base):
            close = difflib.get_close_matches(name, (*HOOKS, *OVERRIDES, *STEPS), n=1, cutoff=_CLOSE)
            if close:
                wrong = _unknown(thing, name, close[0], "no hook has that name, so nothing would call it")
                if not getattr(thing, "_hook_names_are_free", False):
                    raise wrong
                warnings.warn(str(wrong), DrivetrainWarning, stacklevel=2)


def _own_names(thing: object, base: type) -> Iterable[str]:
    inherited = set(dir(base))
    names = {
        name
        for kind in type(thing).__mro__
        if kind is not base and issubclass(kind, base)
        for name in vars(kind)
    }
    own = sorted(
        name
        for name in names
        if not name.startswith("_") and (name not in inherited or name in HOOKS or name in OVERRIDES)
    )
    return [
        name
        for name in own
        if callable(inspect.getattr_static(thing, name, None)) and not is_unused(getattr(thing, name))
    ]


def _misspelt(base: type) -> frozenset[str]:
    # Steps have no prefix that marks them as ours, so only the slips that people make are looked for.
    if not hasattr(base, "training_step"):
        return frozenset()
    return frozenset(
        {
            "train_step",
            "training_steps",
            "trainning_step",
            "traning_step",
            "val_step",
            "valid_step",
            "validate_step",
        }
        | {"validation_steps", "valdiation_step", "test_steps", "prediction_step", "predict_steps"}
        | {"configure_optimizer", "configure_optimisers", "configure_optims", "config_optimizers"}
    )


def _unknown(thing: object, name: str, nearest: str, because: str) -> ModuleError:
    return ModuleError(
        "module.hook-name",
        f"{type(thing).__name__}.{name} is not a hook",
        values={"class": type(thing).__qualname__, "method": name, "nearest": nearest},
        because=because,
        hint=f"rename it to {nearest}, or give it a name that does not look like a hook",
    )


def _check_arguments(thing: object, name: str, hook: Hook, *, with_trainer: bool) -> None:
    wanted = (*(("trainer", "module") if with_trainer else ()), *hook.arguments)
    try:
        signature = inspect.signature(getattr(thing, name))
    except (TypeError, ValueError):  # a builtin without a signature is called as it is
        return
    for count in {len(wanted), len(wanted) - wanted.count("dataloader_idx")}:
        try:
            signature.bind(*wanted[:count])
        except TypeError:
            continue
        return
    raise ModuleError(
        "module.hook-arguments",
        f"{type(thing).__name__}.{name}{signature} cannot be called",
        values={"class": type(thing).__qualname__, "takes": str(signature), "gets": ", ".join(wanted)},
        because="a hook is called with the arguments in the table of hooks",
        hint=f"write it as def {name}(self{''.join(', ' + argument for argument in wanted)})",
    )


def takes(method: object, count: int) -> bool:
    """Whether a method can be called with this many positional arguments."""
    try:
        inspect.signature(method).bind(*range(count))  # type: ignore[arg-type]  # checked to be callable before
    except TypeError:
        return False
    except ValueError:  # no signature to ask
        return True
    return True
