"""limit_train_batches and its kin: a number of batches a rank, or a fraction of the whole."""

from __future__ import annotations

from fractions import Fraction

from drivetrain.base.errors import DataError, TrainerError


def check_limit(name: str, limit: object) -> int | float:
    """Return the limit, or refuse what is neither a count nor a fraction.

    Raises:
        TrainerError [trainer.bad-argument]: not an int of 0 or more, nor a float from 0 to 1.
    """
    if type(limit) is int and limit >= 0:
        return limit
    if type(limit) is float and 0 <= limit <= 1:
        return limit
    raise TrainerError(
        "trainer.bad-argument",
        f"{name} cannot be {limit!r}",
        values={name: limit},
        because="it is an int (batches a rank) or a float from 0.0 to 1.0 (fraction of the batches)",
        hint=f"pass {name}=1.0 for all batches, or {name}=10 for ten",
    )


def part_of(total: int, part: float) -> int:
    """Return a part of a number of batches, rounded down: 0.29 of 100 is 29, as it is written."""
    return int(total * Fraction(str(part)))


def limited(name: str, limit: float, total: int | None, world_size: int) -> int | None:
    """Return how many batches of the whole stream are used; None for all of an unknown number.

    Raises:
        DataError [data.limit]: a fraction of a stream whose length nobody knows, or of less than one batch.
    """
    if limit == 1.0 and type(limit) is float:
        return total
    if type(limit) is int:
        return limit * world_size if total is None else min(limit * world_size, total)
    if limit == 0:
        return 0
    if total is None:
        message, because = f"{name}={limit} of a loader without a length", "a fraction needs a whole"
    elif part_of(total, limit) == 0:
        message, because = (
            f"{name}={limit} of {total} batches is none",
            "a limit above 0 keeps at least one batch",
        )
    else:
        return part_of(total, limit)
    raise DataError(
        "data.limit",
        message,
        values={name: limit, "batches": total},
        because=because,
        hint=f"pass an int, such as {name}=1, or a larger fraction",
    )
