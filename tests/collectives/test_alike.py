from __future__ import annotations

import torch

from drivetrain.collectives.alike import check_alike
from drivetrain.collectives.single import SingleCollectives


def test_one_rank_is_always_like_itself_and_asks_nobody(monkeypatch) -> None:
    monkeypatch.setattr(SingleCollectives, "all_reduce", None)
    check_alike([torch.ones(2), torch.ones(1, 3).int()], SingleCollectives(), torch.device("cpu"))
