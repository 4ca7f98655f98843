"""Recorded questions to the trainer that users know, asked of ours.

``plan_facts.jsonl`` holds (flags, machine) -> answer as a release of Lightning gave it
(``seen_in``), in our terms. We agree unless the design says otherwise; each row on which we differ
stands here with its reason. ``silent_change_there`` marks answers in which that release changed
what the user had said; we agree with such a row by refusing it or by keeping what was said.
"""

from __future__ import annotations

import json
import pathlib
import warnings

import pytest

import drivetrain as dt

ROWS = [
    json.loads(line) for line in (pathlib.Path(__file__).parent / "plan_facts.jsonl").read_text().splitlines()
]

_TWICE = "both flags name the hardware and contradict each other; there the first one won silently"
_AUTO = "auto takes an accelerator that can run the strategy: here the CPU, with the reason in the plan"
_AGAIN = "the cluster started the ranks; to start them again is refused, launcher='external' is the way out"
_POD = (
    "devices x num_nodes is always the world size: unsaid num_nodes moves to the 20 that the cluster started"
)
DIFFERENCES = {
    "0ceb66ceb7": _TWICE,
    "23b54eb921": _AUTO,
    "60be5585a1": _AUTO,
    "3a7d522af9": "strategy='ddp' was said and is kept: ddp with a world of 1, not single",
    "41ef6a51bd": _AGAIN,
    "5deebe6fef": _AGAIN,
    "a0097a7a87": _POD,
    "fdcb6ec9c7": _POD,
    "a8d1c4e3ef": "auto prefers CUDA over MPS where both are there",
    "cee7c7c66b": "that release did not know ddp_fork yet; the name of later releases is read",
    "e5d615fc37": "MPS has no float64: there the first tensor failed, here the plan does",
    "f5434801c3": "SLURM started this process, so the plan says slurm; there nobody looked for one rank",
}


def ask(row: dict) -> dt.Plan | dt.PlanError:
    """Ask our resolver a recorded question."""
    facts = row["machine"]
    machine = dt.Machine(facts["devices"], facts["variables"], notebook=facts["notebook"], fork=facts["fork"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dt.DrivetrainDeprecationWarning)
        try:
            return dt.plan(machine=machine, **row["flags"])
        except dt.PlanError as error:
            return error


def difference(row: dict) -> str:
    """Say how our answer differs from the recorded one; empty where we agree."""
    answer, expected = ask(row), row["expect"]
    if isinstance(answer, dt.PlanError):
        refused = expected["kind"] == "error" or expected.get("silent_change_there")
        return "" if refused else f"refused: {', '.join(conflict.code for conflict in answer.conflicts)}"
    if expected["kind"] == "error":
        return f"resolved, there an error: {expected['why']}"
    ours = answer.decisions() | {"strategy": answer.strategy.name, "device_ids": list(answer.device_ids)}
    wrong = [
        f"{name}={ours[name]!r}, there {value!r}"
        for name, value in expected.items()
        if ours.get(name, value) != value
    ]
    return "; ".join(wrong)


def test_we_agree_with_every_row_that_is_not_listed(capsys: pytest.CaptureFixture[str]) -> None:
    """Agreement is printed; a row that differs without a reason fails."""
    differing = {row["id"]: said for row in ROWS if (said := difference(row))}
    with capsys.disabled():
        agreeing = len(ROWS) - len(differing)
        print(f"\nplan facts: {agreeing} of {len(ROWS)} agree, {len(differing)} differ with a reason")
    assert {name: said for name, said in differing.items() if name not in DIFFERENCES} == {}


@pytest.mark.parametrize("name", DIFFERENCES)
def test_a_listed_row_still_differs(name: str) -> None:
    """A reason for a row on which we agree would be a lie."""
    assert difference(next(row for row in ROWS if row["id"] == name))


def test_a_precision_that_was_said_is_never_another_one() -> None:
    """There float16 on the CPU became bfloat16 with a warning; here it stays what was said."""
    changed = [
        row for row in ROWS if row["expect"].get("silent_change_there") and "precision" in row["flags"]
    ]
    assert changed
    for row in changed:
        plan = ask(row)
        assert isinstance(plan, dt.Plan)
        assert plan.precision == {"16": "16-mixed", "bf16": "bf16-mixed"}.get(
            str(row["flags"]["precision"]), "16-mixed"
        )
