from __future__ import annotations

import pytest

from drivetrain.loggers.rank import is_rank_zero

TORCHRUN = {"WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2", "GROUP_RANK": "0"}
SLURM = {"SLURM_NTASKS": "4", "SLURM_LOCALID": "1", "SLURM_NODEID": "0", "SLURM_NNODES": "2"}


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, True),
        ({"RANK": "1"}, True),  # alone it says nothing
        ({"RANK": "0", **TORCHRUN}, True),
        ({"RANK": "1", **TORCHRUN}, False),
        ({"SLURM_PROCID": "3", **SLURM}, False),
        ({"SLURM_PROCID": "0", **SLURM}, True),
        ({"RANK": "x", **TORCHRUN}, True),  # the Trainer refuses it, and says why
    ],
)
def test_a_complete_set_of_variables_says_who_is_rank_0(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], expected: bool
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert is_rank_zero() is expected
