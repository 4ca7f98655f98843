"""What this process is doing now."""

from __future__ import annotations

import contextlib
import pickle

from drivetrain.base.where import HERE, Where


def test_a_page_is_empty_until_something_is_noted_and_after_it_is_cleared() -> None:
    where = Where()
    assert str(where) == ""
    where.note(stage="fit")
    assert str(where) == "stage fit"
    where.clear()
    assert str(where) == ""


def test_later_facts_replace_earlier_ones_of_their_name_and_keep_the_others() -> None:
    where = Where()
    where.note(stage="fit", step=1)
    where.note(step=2, batch=0)
    assert str(where) == "stage fit, step 2, batch 0"


def test_pages_of_two_notebooks_are_apart() -> None:
    one, other = Where(), Where()
    one.note(step=1)
    assert str(other) == ""


def test_the_notebook_pickles_as_the_one_of_the_process_that_reads_it() -> None:
    assert pickle.loads(pickle.dumps(HERE)) is HERE  # noqa: S301 - our own bytes


def test_what_is_noted_apart_is_forgotten_unless_it_failed() -> None:
    where = Where()
    where.note(stage="fit")
    with where.apart():
        where.clear()
        where.note(step=3)
    assert str(where) == "stage fit"
    with contextlib.suppress(KeyError), where.apart():
        where.note(step=3)
        raise KeyError
    assert str(where) == "stage fit, step 3"
