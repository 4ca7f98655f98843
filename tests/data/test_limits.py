from __future__ import annotations

import pytest

from drivetrain import DataError, TrainerError
from drivetrain.data.limits import check_limit, limited


@pytest.mark.parametrize(
    ("limit", "total", "world_size", "expected"),
    [
        (1.0, 7, 2, 7),
        (1.0, None, 1, None),
        (1, 7, 2, 2),
        (9, 7, 2, 7),
        (3, None, 2, 6),
        (0, 7, 1, 0),
        (0.0, None, 1, 0),
        (0.5, 7, 2, 3),
        (0.29, 100, 1, 29),
    ],
)
def test_an_int_counts_for_each_rank_and_a_float_is_of_the_whole(limit, total, world_size, expected) -> None:
    assert limited("limit_train_batches", limit, total, world_size) == expected


@pytest.mark.parametrize(("limit", "total"), [(0.5, None), (0.1, 5)])
def test_a_fraction_needs_a_whole_and_at_least_one_batch(limit, total) -> None:
    with pytest.raises(DataError, match=r"data.limit"):
        limited("limit_train_batches", limit, total, 1)


@pytest.mark.parametrize("limit", [-1, 1.5, -0.1, True, "1", None, float("nan")])
def test_other_limits_are_refused(limit) -> None:
    with pytest.raises(TrainerError, match=r"trainer.bad-argument"):
        check_limit("limit_val_batches", limit)
