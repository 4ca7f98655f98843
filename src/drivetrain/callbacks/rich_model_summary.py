"""RichModelSummary: the table of layers in colour."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, final

from drivetrain.callbacks.model_summary import ModelSummary
from drivetrain.modules.summary import totals

_STYLES = {" ": "dim", "Name": "bold blue", "Params": "bold"}
_RIGHT = ("Params", "FLOPs", "In sizes", "Out sizes")


@final
class RichModelSummary(ModelSummary):
    """Print the table of `ModelSummary` as rich draws it; ``summarize_kwargs`` go to ``rich.table.Table``.

    Raises:
        ModuleError [module.summary-depth]: the depth is not an int of -1 or more.
    """

    @staticmethod
    def summarize(
        summary_data: Sequence[tuple[str, Sequence[str]]],
        total_parameters: int,
        trainable_parameters: int,
        model_size: float,
        total_training_modules: Mapping[str, int],
        total_flops: int,
        **summarize_kwargs: Any,
    ) -> None:
        """Draw the table to standard error."""
        from rich.console import Console
        from rich.table import Table

        console = Console(stderr=True)
        drawn = Table(**{"header_style": "bold magenta", **summarize_kwargs})
        for title, _ in summary_data:
            drawn.add_column(
                title, justify="right" if title in _RIGHT else "left", style=_STYLES.get(title), no_wrap=True
            )
        for cells in zip(*(cells for _, cells in summary_data), strict=True):
            drawn.add_row(*cells)
        if drawn.row_count:
            console.print(drawn)
        below = Table.grid(padding=(0, 2))
        for value, what in totals(
            total_parameters, trainable_parameters, model_size, total_training_modules, total_flops
        ):
            below.add_row(f"[bold]{value}[/]", what)
        console.print(below)
