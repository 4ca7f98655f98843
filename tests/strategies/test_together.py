"""Ranks that can run the model only together take equally many steps, whatever they have."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

import drivetrain as dt
from drivetrain.data import Share
from drivetrain.strategies.together import STAND_IN, together


def batches(*names: str):
    return ((name, Share(number, 1, 1.0, number + 1, 1)) for number, name in enumerate(names))


@pytest.mark.parametrize(("has_whole_model", "world_size"), [(True, 2), (False, 1)])
def test_ranks_that_need_nobody_read_their_own(has_whole_model: bool, world_size: int) -> None:
    alone = SimpleNamespace(has_whole_model=has_whole_model, ranks=SimpleNamespace(world_size=world_size))
    assert [batch for batch, _ in together(batches("a", "b"), alone)] == ["a", "b"]


@pytest.mark.ranks
def test_a_rank_without_batches_repeats_its_last_or_is_given_one() -> None:
    have = [("a", "b", "c"), (), ("d",)]

    def main(engine: dt.Engine) -> list[list[tuple[str, bool]]]:
        strategy = SimpleNamespace(
            has_whole_model=False,
            ranks=engine.strategy.ranks,
            collectives=engine.strategy.collectives,
            device=engine.device,
        )
        mine = [
            (batch, share is STAND_IN)
            for batch, share in together(batches(*have[engine.global_rank]), strategy)
        ]
        empty = [*together(batches(), strategy)]
        return engine.strategy.collectives.all_gather_object([*mine, len(empty)])

    found = dt.Engine(accelerator="cpu", devices=3, strategy="ddp", launcher="fork").launch(main)
    assert found == [
        [("a", False), ("b", False), ("c", False), 0],
        [("a", True), ("a", True), ("a", True), 0],
        [("d", False), ("d", True), ("d", True), 0],
    ]
