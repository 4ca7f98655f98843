"""How a name is logged, and the errors where that changes or differs over ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from drivetrain.base.errors import CollectiveError, ModuleError
from drivetrain.base.text import listed
from drivetrain.loops.slots import Slot, fx_name, read_fx
from drivetrain.modules.run import LogOptions

Way: TypeAlias = "dict[str, Any]"
"""How a rank keeps a name, by option."""
_FIELDS = (
    "on_step",
    "on_epoch",
    "reduce_fx",
    "rank_fx",
    "sync_dist",
    "rank_zero_only",
    "add_dataloader_idx",
    "value",
)
"""What ranks have to agree on of a name: all that says how its value is made of theirs."""


def plain_options(said: LogOptions, fx: Any) -> LogOptions:
    """Return options with functions by their names, as they can be compared."""
    rank_fx = said.rank_fx
    known = fx_name(read_fx("rank_fx", rank_fx)) if callable(rank_fx) else rank_fx or ""
    return said._replace(reduce_fx=fx_name(fx), rank_fx=known)


def way_of(slot: Slot) -> Way:
    """Return how this rank keeps a name."""
    said = slot.said
    plain = plain_options(said, slot.fx)
    value = f"torchmetrics object {slot.attribute}" if slot.attribute else "number"
    flags = said.sync_dist, said.rank_zero_only, said.add_dataloader_idx
    found = slot.on_step, slot.on_epoch, plain.reduce_fx, plain.rank_fx or None, *flags, value
    return dict(zip(_FIELDS, found, strict=True))


def marked(name: str, slot: Slot) -> str:
    """Return a name with how it is kept, as one text that ranks compare."""
    return "\0".join((name, *map(str, way_of(slot).values())))


def changed(name: str, before: LogOptions, now: LogOptions) -> ModuleError:
    """Return the error for a name that is logged with other options than before."""
    changes = {
        field: (old, new)
        for field, old, new in zip(now._fields, before, now, strict=True)
        if old != new and field not in ("batch_size", "metric_attribute")
    }
    return ModuleError(
        "module.log-options",
        f"self.log({name!r}, ...) with other options than before",
        values={field: f"{new!r}, before {old!r}" for field, (old, new) in changes.items()},
        because="one name is kept in one way throughout an epoch",
        hint="use the same options, or another name",
    )


def disagree(marks: dict[int, list[str]], ways: Sequence[Mapping[str, Way]], when: str) -> CollectiveError:
    """Return the error for names, or options of them, that differ over ranks."""
    names = {rank: [mark.partition("\0")[0] for mark in some] for rank, some in marks.items()}
    union = sorted({name for some in names.values() for name in some})
    for name in union:
        of_ranks = {rank: ways[rank][name] for rank in names if name in ways[rank]}
        differing = [field for field in _FIELDS if len({way[field] for way in of_ranks.values()}) > 1]
        if differing:
            return _differ(name, of_ranks, differing, when)
    lacking = {name: [rank for rank, some in names.items() if name not in some] for name in union}
    missing = {name: ranks for name, ranks in lacking.items() if ranks}
    first = next(iter(missing.items()))
    return CollectiveError(
        "loop.logged-keys",
        f"rank {listed(first[1])} did not log {first[0]!r} in {when}, other ranks did",
        values={name: f"missing on rank {listed(ranks)}" for name, ranks in missing.items()},
        because="a logged value is one over all ranks, so every rank logs the same names",
        hint="log it on every rank, or say that it is one rank's: self.log(..., rank_zero_only=True)",
    )


def _differ(name: str, of_ranks: Mapping[int, Way], differing: Sequence[str], when: str) -> CollectiveError:
    values: dict[str, Any] = {}
    for field in differing:
        found: dict[Any, list[int]] = {}
        for rank, way in of_ranks.items():
            found.setdefault(way[field], []).append(rank)
        values |= {f"{field} on rank {listed(ranks)}": value for value, ranks in found.items()}
    return CollectiveError(
        "loop.logged-keys",
        f"ranks logged {name!r} in {when} with different options: {listed(differing)}",
        values=values,
        because="a logged value is one over all ranks, so every rank logs a name in the same way",
        hint="log it with the same options on every rank, or under another name",
    )
