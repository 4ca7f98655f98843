from __future__ import annotations

import pytest

import drivetrain as dt
from drivetrain.tuner.refusal import bad, check_count


def test_an_error_tells_the_call_the_rule_and_what_to_pass() -> None:
    text = str(bad("lr_find", "mode", "cubic", "'linear' or 'exponential'", "'linear'"))
    assert "lr_find(mode='cubic')" in text
    assert "hint: pass mode='linear'" in text


def test_a_count_is_a_whole_number_from_a_least_one_on() -> None:
    assert check_count("f", "steps", 2, 2, "3") == 2
    for wrong in (1, 2.0, True, "2"):
        with pytest.raises(dt.TrainerError, match="2 or more"):
            check_count("f", "steps", wrong, 2, "3")
