"""PrecisionReport: which number formats a run really had, read off its tensors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, final

import torch
from torch.nn.parameter import is_lazy

from drivetrain.precision.precision import Precision

Types: TypeAlias = "tuple[torch.dtype, ...]"
"""In the order in which they are met; empty where there are none."""


@final
@dataclass(frozen=True)
class PrecisionRow:
    """What one module holds itself, without the modules in it."""

    name: str
    """Its name in the module; empty for the module itself."""
    kind: str
    parameters: Types = ()
    gradients: Types = ()
    optimizer: Types = ()
    """Of the optimizers' states; numbers, such as a count of steps, are left out."""
    buffers: Types = ()


@final
@dataclass(frozen=True)
class PrecisionReport:
    """The formats of a run's tensors, on this rank; ``str()`` gives a table."""

    precision: str
    rows: tuple[PrecisionRow, ...]
    """Every module that has parameters or buffers of its own."""
    reductions: Types = ()
    """In what gradients are combined over ranks; empty where they are not."""
    scale: float | None = None
    """By what the loss is multiplied now; None where it is not."""
    num_left_out: int = 0
    """Optimizer steps that were left out, as gradients overflowed."""
    converted: tuple[str, ...] = ()
    """Names of layers that compute in a format which none of their tensors has, such as float8."""

    @property
    def parameters(self) -> Types:
        """Every type that parameters have."""
        return _distinct(kind for row in self.rows for kind in row.parameters)

    @property
    def gradients(self) -> Types:
        """Every type that gradients have."""
        return _distinct(kind for row in self.rows for kind in row.gradients)

    @property
    def optimizer(self) -> Types:
        """Every type that the optimizers' states have."""
        return _distinct(kind for row in self.rows for kind in row.optimizer)

    @property
    def buffers(self) -> Types:
        """Every type that buffers have."""
        return _distinct(kind for row in self.rows for kind in row.buffers)

    def __str__(self) -> str:
        """Return the table, and what is said of the whole run below it."""
        table = [["module", "class", "parameters", "gradients", "optimizer", "buffers"]]
        for row in self.rows:
            kinds = (row.parameters, row.gradients, row.optimizer, row.buffers)
            table.append([row.name or "(itself)", row.kind, *map(_named, kinds)])
        widths = [max(len(line[column]) for line in table) for column in range(len(table[0]))]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
            for line in table
        ]
        lines += [f"precision  {self.precision}", f"reductions {_named(self.reductions)}"]
        if self.converted:
            lines.append(f"converted  {', '.join(self.converted)}")
        if self.scale is not None:
            lines.append(f"loss scale {self.scale:g}, steps left out: {self.num_left_out}")
        return "\n".join(lines)


def report(
    module: torch.nn.Module,
    optimizers: Sequence[torch.optim.Optimizer],
    precision: Precision,
    reductions: Types,
) -> PrecisionReport:
    """Look at what a run has: nothing is computed or moved but the scale, which is read from the device."""
    states: dict[Any, Any] = {
        parameter: state for optimizer in optimizers for parameter, state in optimizer.state.items()
    }
    rows = []
    for name, part in module.named_modules():
        parameters = [one for one in part.parameters(recurse=False) if not is_lazy(one)]
        row = PrecisionRow(
            name,
            type(part).__name__,
            _types(parameters),
            _types(one.grad for one in parameters),
            _types(value for one in parameters for value in states.get(one, {}).values()),
            _types(part.buffers(recurse=False), with_numbers=True),
        )
        if row.parameters or row.buffers:
            rows.append(row)
    return PrecisionReport(
        precision.name,
        tuple(rows),
        reductions,
        precision.scale if precision.scales_loss else None,
        precision.num_left_out,
        precision.converted,
    )


def _types(values: Iterable[Any], *, with_numbers: bool = False) -> Types:
    tensors = [one for one in values if isinstance(one, torch.Tensor)]
    return _distinct(one.dtype for one in tensors if with_numbers or one.dim())


def _distinct(kinds: Iterable[torch.dtype]) -> Types:
    return tuple(dict.fromkeys(kinds))


def _named(kinds: Types) -> str:
    return ", ".join(str(kind).removeprefix("torch.") for kind in kinds) or "-"
