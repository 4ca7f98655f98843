"""What a grammar raises."""

from __future__ import annotations

from drivetrain.flags.problem import Problem


def test_a_problem_holds_message_rule_and_fixes_in_order() -> None:
    problem = Problem("devices=0", "one at least", {"devices": 1}, {"devices": "auto"})
    assert (str(problem), problem.message, problem.because) == ("devices=0", "devices=0", "one at least")
    assert problem.fixes == ({"devices": 1}, {"devices": "auto"})
    assert Problem("a", "b").fixes == ()
