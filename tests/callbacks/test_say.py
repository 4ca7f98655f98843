from __future__ import annotations

from types import SimpleNamespace

from drivetrain.callbacks.say import say


def test_one_line_of_rank_0_or_of_each_with_its_number(capsys) -> None:
    for rank in range(2):
        run = SimpleNamespace(global_rank=rank, world_size=2, is_global_zero=rank == 0)
        say(run, "hello")
        say(run, "hi", everywhere=True)
    say(SimpleNamespace(global_rank=0, world_size=1, is_global_zero=True), "alone", everywhere=True)
    assert capsys.readouterr().err.splitlines() == ["hello", "rank 0: hi", "rank 1: hi", "alone"]
