"""Strategies by the classes that Lightning's users call, with its arguments; isinstance knows a run's own."""

from __future__ import annotations

from typing import Any, ClassVar

from drivetrain.base.errors import CompatError
from drivetrain.compat.strategy_view import StrategyView
from drivetrain.resolver.old_classes import OLD_NAMES, SAME_NAMES, OldName
from drivetrain.resolver.old_names import as_before
from drivetrain.resolver.spec import StrategySpec


class _Kind(type):
    """A class of Lightning's that stands for some of our strategies."""

    row: OldName
    stands_for: frozenset[str]

    def __call__(cls, *given: Any, **named: Any) -> Any:
        """Return the strategy that the arguments of Lightning's class say."""
        return as_before(cls.row, given, named)

    def __instancecheck__(cls, thing: object) -> bool:
        """Whether a run's strategy, or one that is to be passed to a Trainer, is of this kind."""
        name = thing.name if isinstance(thing, StrategySpec) else ""
        if type(thing) is StrategyView:
            name = thing.name
        return bool(cls.stands_for & {*name.split("+")})


class _Strategy(metaclass=_Kind):
    row: ClassVar[OldName]
    stands_for: ClassVar[frozenset[str]]

    def __init_subclass__(cls) -> None:
        if "row" not in vars(cls):
            raise CompatError(
                "compat.absent",
                f"class {cls.__name__} is made from a strategy's class of the mirror",
                values={"base": cls.__mro__[1].__name__},
                because="what it overrides would never be called: a strategy here is a value, and what runs "
                "is made from it",
                hint="an algorithm of your own subclasses dt.Strategy: docs/strategies.md",
            )


def _kind(name: str, *stands_for: str) -> Any:
    row = SAME_NAMES.get(name) or OLD_NAMES[name]
    body = {"row": row, "stands_for": frozenset(stands_for), "__module__": __name__}
    return _Kind(name, (_Strategy,), {**body, "__doc__": f"``{row.strategy or name}`` here."})


DDPStrategy = _kind("DDPStrategy", "ddp")
DeepSpeedStrategy = _kind("DeepSpeedStrategy", "deepspeed")
FSDPStrategy = _kind("FSDPStrategy", "fsdp", "hsdp")
ModelParallelStrategy = _kind("ModelParallelStrategy", "tp")
ParallelStrategy = _kind(
    "ParallelStrategy", "ddp", "zero1", "local_sgd", "fsdp", "hsdp", "deepspeed", "tp", "pp", "ep", "cp"
)
SingleDeviceStrategy = _kind("SingleDeviceStrategy", "single")
XLAStrategy = _kind("XLAStrategy", "xla")
