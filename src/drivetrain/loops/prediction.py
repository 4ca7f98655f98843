"""PredictionLoop: the output of every batch, complete and in the loader's order."""

from __future__ import annotations

from typing import Any, final

import torch

from drivetrain.base.tree import map_leaves
from drivetrain.base.where import HERE
from drivetrain.data import Feed
from drivetrain.loops.context import Context, evaluating
from drivetrain.loops.evaluation import evaluation_step, nothing_read, stand_in
from drivetrain.loops.transfer import mover
from drivetrain.strategies.together import STAND_IN, together


@final
class PredictionLoop:
    """Each batch once; outputs come to the CPU as they are made, and to rank 0 at the end.

    Without ``keep`` they are given to the hooks and let go.
    """

    def __init__(self, context: Context, feeds: list[Feed], *, on_every_rank: bool, keep: bool) -> None:
        self._context, self._feeds, self._on_every_rank = context, feeds, on_every_rank
        self._keep = keep
        self._step = evaluation_step(context, "predict_step", len(feeds))

    def read(self, feeds: list[Feed]) -> None:
        """Read these, before the first batch."""
        self._feeds = feeds

    def run(self) -> list[list[Any]]:
        """Return each loader's outputs, in order: on rank 0, or on every rank where each is a caller.

        Collectives:
            one gather of all outputs a loader, where they are kept; every rank must call.
        """
        context = self._context
        found = []
        context.phase = "predict"
        with evaluating(context, "predict"):
            context.events("on_predict_start")
            context.events("on_predict_epoch_start")
            for number, feed in enumerate(self._feeds):
                context.in_batches = True
                mine = self._one(feed, number)
                context.in_batches = False
                found.append(self._gathered(mine) if self._keep else [])
            context.events("on_predict_epoch_end")
            context.events("on_predict_end")
        return found

    def _one(self, feed: Feed, number: int) -> list[tuple[int, Any]]:
        context = self._context
        starts = context.events.calls("on_predict_batch_start")
        ends = context.events.calls("on_predict_batch_end")
        outputs: list[tuple[int, Any]] = []
        ran, move = False, mover(context, number)
        batches = context.watch.each(feed.evaluation(), "[PredictionLoop].predict_dataloader_next")
        for batch, share in together(iter(batches), context.strategy):
            if share is STAND_IN:
                stand_in(context, self._step, move(batch), number)
                continue
            ran = True
            HERE.note(loader=number, batch=share.number)
            moved = move(batch)
            context.results.at_batch(share.number, share.size)
            context.batch_indices = feed.indices if starts or ends else None
            for call in starts:
                call(moved, share.number, number)
            output = self._step(moved, share.number, number)
            for call in ends:
                call(output, moved, share.number, number)
            if self._keep:
                outputs.append((share.number, map_leaves(output, _to_cpu)))
        context.batch_indices = None
        if not ran and feed.num_batches is None and context.strategy.ranks.is_zero:
            raise nothing_read("predict", number)
        return outputs

    def _gathered(self, mine: list[tuple[int, Any]]) -> list[Any]:
        collectives = self._context.strategy.collectives
        if collectives.world_size == 1:
            return [output for _, output in mine]
        if self._on_every_rank:
            everybody: list[list[tuple[int, Any]]] | None = collectives.all_gather_object(mine)
        else:
            everybody = collectives.gather_object(mine)
        pairs = sorted((pair for part in everybody or [] for pair in part), key=lambda pair: pair[0])
        return [output for _, output in pairs]


def _to_cpu(leaf: Any) -> Any:
    if not isinstance(leaf, torch.Tensor):
        return leaf
    # A copy also on the CPU: a step may return a buffer that it fills anew, or a view of something large.
    return leaf.detach().clone() if leaf.device.type == "cpu" else leaf.detach().cpu()
