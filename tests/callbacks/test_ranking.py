from __future__ import annotations

import math
import random

import pytest

from drivetrain.callbacks.ranking import Ranking

NAN = math.nan


def offered(ranking: Ranking, scores: list[float], start: int = 0) -> list[str]:
    """Offer scores one after the other; return all paths that went, in order."""
    gone = []
    for number, score in enumerate(scores, start):
        if ranking.admits(score):
            gone += ranking.add(f"p{number}", score)
    return gone


@pytest.mark.parametrize("mode", ["min", "max"])
@pytest.mark.parametrize("size", [1, 2, 5])
def test_the_best_stay_as_if_all_were_sorted(mode: str, size: int) -> None:
    drawn = random.Random(size)
    for _ in range(50):
        scores = [float(drawn.randint(0, 6)) for _ in range(12)]
        ranking = Ranking(size, mode)
        offered(ranking, scores)
        by_score = sorted(range(12), key=lambda one: scores[one] if mode == "min" else -scores[one])
        assert set(ranking.scores) == {f"p{one}" for one in by_score[:size]}
        assert ranking.best == f"p{by_score[0]}"
        assert ranking.worst == f"p{by_score[size - 1]}"


def test_a_nan_stays_while_there_is_room_and_is_never_the_best() -> None:
    ranking = Ranking(2, "max")
    assert offered(ranking, [NAN]) == []
    assert (ranking.best, list(ranking.scores)) == ("", ["p0"])
    assert offered(ranking, [1.0, 2.0], 1) == ["p0"]
    assert ranking.best == "p2"
    assert not ranking.admits(NAN)


def test_without_mode_the_newest_are_the_best() -> None:
    ranking = Ranking(2)
    assert offered(ranking, [0.0, 0.0, 0.0]) == ["p0"]
    assert (ranking.best, ranking.worst) == ("p2", "p1")
    assert ranking.add("p1", 0.0) == []
    assert ranking.best == "p1"


def test_all_or_none_may_stay() -> None:
    everything, nothing = Ranking(-1, "min"), Ranking(0, "min")
    assert offered(everything, [3.0, 1.0, 2.0]) == []
    assert (everything.best, everything.worst, len(everything.scores)) == ("p1", "", 3)
    assert offered(nothing, [1.0]) == []
    assert nothing.best == nothing.worst == ""


def test_one_that_comes_again_is_replaced() -> None:
    ranking = Ranking(2, "min")
    offered(ranking, [1.0, 2.0])
    assert ranking.add("p1", 0.5) == []
    assert (ranking.best, ranking.scores) == ("p1", {"p0": 1.0, "p1": 0.5})
    ranking.discard("p1")
    ranking.discard("p1")
    assert ranking.best == "p0"
