from __future__ import annotations

import math

import pytest

import drivetrain as dt
from drivetrain.callbacks.refusal import bad_argument, check_flag, check_mode, check_number, check_text


def test_what_is_right_comes_back() -> None:
    assert check_flag("X", "on", value=True) is True
    assert check_mode("X", "max") == "max"
    assert check_number("X", "n", 3, least=3) == 3.0
    assert check_text("X", "name", "a", "a name") == "a"


@pytest.mark.parametrize(
    "refused",
    [
        lambda: check_flag("X", "on", 1),
        lambda: check_mode("X", "auto"),
        lambda: check_number("X", "n", math.nan),
        lambda: check_number("X", "n", True),
        lambda: check_number("X", "n", "3"),
        lambda: check_number("X", "n", -1, least=0.0),
        lambda: check_text("X", "name", "", "a name"),
        lambda: check_text("X", "name", None, "a name"),
    ],
)
def test_what_is_wrong_is_refused(refused) -> None:
    with pytest.raises(dt.ModuleError, match=r"callback.bad-argument.*X\("):
        refused()


def test_the_error_names_class_argument_and_value() -> None:
    error = bad_argument(dt.Callback(), "n", 3, "even", "pass 4")
    assert error.message == "Callback(n=3)"
    assert (error.values, error.because, error.hint) == ({"n": 3}, "n is even", "pass 4")
