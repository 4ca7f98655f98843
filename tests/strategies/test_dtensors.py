"""Tensors in parts, on four ranks that meet once for all of it."""

from __future__ import annotations

import pytest
import torch

import drivetrain as dt
from drivetrain.strategies import dtensors
from drivetrain.strategies.mean import average_gradients
from drivetrain.strategies.mesh import make_mesh
from drivetrain.strategies.parts import is_in_parts, local

FULL = torch.arange(14.0).reshape(7, 2) + 1


def spread(mesh, *placements):
    from torch.distributed.tensor import distribute_tensor

    return distribute_tensor(FULL.clone(), mesh, placements)


def on_ranks(engine: dt.Engine) -> dict[str, object]:
    from torch.distributed.tensor import Replicate, Shard

    cpu, rank = torch.device("cpu"), engine.global_rank
    flat, square = make_mesh(cpu, {"dp_shard": 4}), make_mesh(cpu, {"dp_replicate": 2, "dp_shard": 2})
    rows, both = spread(flat, Shard(0)), spread(square, Replicate(), Shard(0))
    columns = spread(square, Shard(0), Shard(1))
    found: dict[str, object] = {
        "meshes differ": make_mesh(cpu, {"dp_shard": 4}) != flat,
        "whole": [torch.equal(dtensors.whole(one), FULL) for one in (rows, both, columns, FULL)],
        "norms": [float(dtensors.total_norm(group)) for group in ([rows], [rows, both, columns, FULL])],
        "parts": [
            torch.equal(dtensors.part_like(FULL, one).to_local(), one.to_local())
            for one in (rows, both, columns)
        ],
        "counter": dtensors.part_like(torch.tensor(3.0), rows).tolist(),
        "in parts": [is_in_parts(rows), is_in_parts(FULL), is_in_parts(3)],
        "local": local(rows).data_ptr() == rows.to_local().data_ptr(),
    }
    gathered = dtensors.whole_on_zero({"a": [rows, rows], "b": FULL, "c": 3}, is_zero=rank == 0)
    found["tied"] = gathered["a"][0] is gathered["a"][1]
    found["sizes"] = [gathered["a"][0].numel(), gathered["b"].numel(), gathered["c"]]

    one, two = torch.nn.Parameter(rows), torch.nn.Parameter(FULL.clone())
    optimizer = torch.optim.SGD([one, two], lr=0.1)
    for algorithm, limit in (("norm", 1.0), ("norm", 1e6), ("value", 5.0)):
        one.grad, two.grad = spread(flat, Shard(0)), FULL.clone()
        dtensors.clip(optimizer, limit, algorithm)
        found[f"{algorithm} {limit}"] = [dtensors.whole(one.grad).tolist(), two.grad.tolist()]
    short = spread(flat, Shard(0)).half() * 4000
    found["short"] = float(dtensors.total_norm([short]))

    plain = [torch.nn.Parameter(torch.zeros(2)) for _ in range(3)]
    plain[0].grad = torch.full((2,), float(rank))
    plain[1].grad = torch.ones(2) if rank == 1 else None
    average_gradients(plain, engine.strategy.collectives, cpu)
    found["mean"] = [None if one.grad is None else one.grad.tolist() for one in plain]
    return found


@pytest.fixture(scope="module")
def found() -> list[dict[str, object]]:
    def main(engine: dt.Engine) -> list[dict[str, object]]:
        return engine.strategy.collectives.all_gather_object(on_ranks(engine))

    return dt.Engine(accelerator="cpu", devices=4, strategy="ddp", launcher="fork").launch(main)


pytestmark = pytest.mark.ranks
NORM = float(FULL.norm())


def test_what_is_in_parts_is_put_together(found) -> None:
    for rank, seen in enumerate(found):
        assert seen["whole"] == [True] * 4
        assert seen["tied"]
        assert seen["sizes"] == ([14, 14, 3] if rank == 0 else [0, 0, 3])


def test_a_whole_tensor_comes_into_parts_where_nothing_is_sent(found) -> None:
    for seen in found:
        assert seen["parts"] == [True] * 3
        assert seen["counter"] == 3.0
        assert seen["in parts"] == [True, False, False]
        assert seen["local"]
        assert seen["meshes differ"]


def test_each_part_counts_once_in_a_norm(found) -> None:
    for seen in found:
        assert seen["norms"] == pytest.approx([NORM, 2 * NORM])
        assert seen["short"] == pytest.approx(4000 * NORM, rel=1e-3)  # more than float16 can say


def test_clipping_is_that_of_whole_gradients(found) -> None:
    one, two = (torch.nn.Parameter(FULL.clone()) for _ in range(2))
    for limit in (1.0, 1e6):
        one.grad, two.grad = FULL.clone(), FULL.clone()
        torch.nn.utils.clip_grad_norm_([one, two], limit)
        for seen in found:
            for mine, theirs in zip(seen[f"norm {limit}"], (one.grad, two.grad), strict=True):
                torch.testing.assert_close(torch.tensor(mine), theirs)
    assert all(seen["value 5.0"] == [FULL.clamp(-5, 5).tolist()] * 2 for seen in found)


def test_gradients_that_no_backward_averages(found) -> None:
    assert all(seen["mean"] == [[1.5, 1.5], [0.25, 0.25], None] for seen in found)
