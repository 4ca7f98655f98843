"""ModelSummary: the table of layers, before a fit."""

from __future__ import annotations

import functools
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from drivetrain.callbacks.callback import Callback
from drivetrain.modules import Module, Run
from drivetrain.modules.summary import Summary, check_depth, summary_of, table, totals


class ModelSummary(Callback):
    """Print a table of the module's layers on rank 0 when a fit begins.

    Layers down to ``max_depth`` have a row: 1 for the module's own children, -1 for all, 0 for the totals
    alone. With ``module.example_input_array`` it shows sizes and FLOPs too, as `summarize` does. To print
    it elsewhere, override `summarize`, which gets the table and ``summarize_kwargs``.

    Raises:
        ModuleError [module.summary-depth]: the depth is no such number.
    """

    def __init__(self, max_depth: int = 1, **summarize_kwargs: Any) -> None:
        self._max_depth = check_depth(max_depth)
        self._summarize_kwargs = summarize_kwargs

    def on_fit_start(self, trainer: Run, module: Module) -> None:
        """Print the table."""
        if not trainer.is_global_zero:
            return
        found = self._summary(trainer, module)
        self.summarize(
            found.columns(),
            found.total_parameters,
            found.trainable_parameters,
            found.model_size,
            found.total_training_modules,
            found.total_flops,
            **self._summarize_kwargs,
        )
        for remark in found.remarks():
            print(remark, file=sys.stderr, flush=True)  # noqa: T201 - that is what it is for

    def _summary(self, trainer: Run, module: Module) -> Summary:
        strategy = trainer.strategy
        return summary_of(
            module,
            self._max_depth,
            prepare=strategy.batch_to_device,
            context=functools.partial(strategy.precision.forward_context, strategy.device.type),
            # Where a rank has a part of the model only, no rank can run it alone.
            runs_example=strategy.has_whole_model,
        )

    @staticmethod
    def summarize(
        summary_data: Sequence[tuple[str, Sequence[str]]],
        total_parameters: int,
        trainable_parameters: int,
        model_size: float,
        total_training_modules: Mapping[str, int],
        total_flops: int,
        **summarize_kwargs: Any,  # noqa: ARG004 - for those who override it
    ) -> None:
        """Print the table to standard error; ``summary_data`` are its columns, each with its title.

        Units:
            model_size: MB, a million bytes each.
        """
        lines = totals(
            total_parameters, trainable_parameters, model_size, total_training_modules, total_flops
        )
        print("\n" + table(summary_data, lines), file=sys.stderr, flush=True)  # noqa: T201 - as above
