"""Where a setting stands: an attribute or hyperparameter of the module or of the data module."""

from __future__ import annotations

from typing import Any

from drivetrain.base.errors import TrainerError


def places(name: str, *things: Any) -> list[Any]:
    """Return every object that holds the setting; `assign` gives all of them the same value."""
    found = []
    for thing in things:
        if thing is None:
            continue
        if hasattr(thing, name) and not _is_computed(thing, name):
            found.append(thing)
        if name in getattr(thing, "hparams", {}):
            found.append(thing.hparams)
    return found


def needed_places(name: str, what: str, *things: Any) -> list[Any]:
    """Return every object that holds the setting.

    Raises:
        TrainerError [trainer.bad-argument]: nobody does.
    """
    found = places(name, *things)
    if not found:
        kinds = [type(one).__qualname__ for one in things if one is not None]
        raise TrainerError(
            "trainer.bad-argument",
            f"{' and '.join(kinds)} has no {name} for the {what} that is found",
            values={"classes": kinds, "name": name},
            because=f"the {what} is read from an attribute or a hyperparameter of that name",
            hint=f"set self.{name} in __init__, or call self.save_hyperparameters() there, and use it",
        )
    return found


def assign(found: list[Any], name: str, value: object) -> None:
    """Give the setting a value everywhere."""
    for place in found:
        setattr(place, name, value)


def _is_computed(thing: Any, name: str) -> bool:
    """Whether it is a property that only reads, as from the hyperparameters."""
    known = getattr(type(thing), name, None)
    return isinstance(known, property) and known.fset is None
