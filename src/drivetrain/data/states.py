"""State that a user's sampler, dataset or loader keeps itself, for a checkpoint."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def states_of(things: Iterable[Any]) -> list[Any]:
    """Return what each thing's ``state_dict`` says; None for one that cannot be saved and restored."""
    return [thing.state_dict() if _is_stateful(thing) else None for thing in things]


def load_states(things: Iterable[Any], states: Iterable[Any]) -> None:
    """Give each thing its state back."""
    for thing, state in zip(things, states, strict=False):
        if state is not None and _is_stateful(thing):
            thing.load_state_dict(state)


def _is_stateful(thing: Any) -> bool:
    return all(callable(getattr(thing, name, None)) for name in ("state_dict", "load_state_dict"))
