"""summarize: what a module is made of, as a table and as data."""

from __future__ import annotations

import contextlib
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, final

import torch
from torch.nn.parameter import is_lazy

from drivetrain.base.errors import ModuleError
from drivetrain.base.tree import map_leaves
from drivetrain.modules.aside import untouched

UNKNOWN = "?"
"""A size that nobody knows: no example, or a layer that it did not reach."""

_THOUSAND = 1000
_UNITS = ("", " K", " M", " B", " T")
_OTHER = "other params"


@final
@dataclass(frozen=True)
class Layer:
    """One row: a module inside of the module."""

    name: str
    layer_type: str
    num_parameters: int
    """Its own and those of the modules in it; one that occurs twice counts once."""
    has_lazy: bool = False
    """Whether some have no shape yet; those are not in `num_parameters`."""
    mode: str = "n/a"
    """``train`` or ``eval``."""
    in_size: Any = UNKNOWN
    """Shapes of its inputs."""
    out_size: Any = UNKNOWN
    flops: int = 0


@final
@dataclass(frozen=True)
class Summary:
    """What `summarize` found; ``str()`` gives the table."""

    max_depth: int
    layers: tuple[Layer, ...]
    total_parameters: int
    trainable_parameters: int
    model_bytes: int
    """Bytes of the parameters, each in the format that it has."""
    num_lazy: int = 0
    """Parameters that have no shape yet, and are not counted."""
    num_shared: int = 0
    """Numbers of parameters that several rows show and the totals count once."""
    total_training_modules: Mapping[str, int] = field(default_factory=dict)
    """How many modules are in ``train`` and in ``eval`` mode."""
    has_example: bool = False
    """Whether the example input has been run through the module."""
    total_flops: int = 0
    """Operations of one forward of the example."""
    problem: str = ""
    """Why the example could not be run, where it could not."""

    @property
    def layer_names(self) -> list[str]:
        """Names of the rows."""
        return [layer.name for layer in self.layers]

    @property
    def layer_types(self) -> list[str]:
        """Classes of the rows."""
        return [layer.layer_type for layer in self.layers]

    @property
    def param_nums(self) -> list[int]:
        """Numbers of parameters of the rows."""
        return [layer.num_parameters for layer in self.layers]

    @property
    def in_sizes(self) -> list[Any]:
        """Shapes that the layers got."""
        return [layer.in_size for layer in self.layers]

    @property
    def out_sizes(self) -> list[Any]:
        """Shapes that the layers returned."""
        return [layer.out_size for layer in self.layers]

    @property
    def training_modes(self) -> list[bool]:
        """Whether each row is in train mode."""
        return [layer.mode == "train" for layer in self.layers]

    @property
    def flop_counts(self) -> dict[str, int]:
        """Operations of each row, by name."""
        return {layer.name: layer.flops for layer in self.layers}

    @property
    def model_size(self) -> float:
        """The parameters' size in MB, a million bytes each."""
        return self.model_bytes / 1e6

    def columns(self) -> list[tuple[str, list[str]]]:
        """Return the table's columns, each with its title."""
        rows = self.layers
        columns = [
            (" ", [str(number) for number in range(len(rows))]),
            ("Name", self.layer_names),
            ("Type", self.layer_types),
            ("Params", [_count(layer) for layer in rows]),
            ("Mode", [layer.mode for layer in rows]),
        ]
        if self.has_example:
            columns += [
                ("FLOPs", [human(layer.flops) for layer in rows]),
                ("In sizes", [str(layer.in_size) for layer in rows]),
                ("Out sizes", [str(layer.out_size) for layer in rows]),
            ]
        return columns

    def remarks(self) -> list[str]:
        """Return what the numbers do not say."""
        found = []
        if self.num_shared:
            found.append(f"{human(self.num_shared)} params are in several rows; the totals count them once")
        if self.num_lazy:
            found.append(f"{self.num_lazy} lazy params have no shape yet; no number here has them in it")
        if self.problem:
            found.append(f"no sizes: example_input_array {self.problem}")
        return found

    def __str__(self) -> str:
        """Return the table, the totals and the remarks."""
        lines = totals(
            self.total_parameters,
            self.trainable_parameters,
            self.model_size,
            self.total_training_modules,
            self.total_flops,
        )
        return table(self.columns(), lines, self.remarks())


def summarize(module: torch.nn.Module, max_depth: int = 1) -> Summary:
    """Return a module's layers with their parameters, modes and, for an example input, sizes and FLOPs.

    Layers down to ``max_depth`` have a row: 1 for the module's own children, -1 for all, 0 for none. Where
    the module has an ``example_input_array``, that is run through it once, in eval mode and without
    gradients; modes, random numbers and logged values stay as they were.

    Raises:
        ModuleError [module.summary-depth]: the depth is no such number.
    """
    return summary_of(module, max_depth)


def summary_of(
    module: torch.nn.Module,
    max_depth: int,
    *,
    prepare: Callable[[Any], Any] | None = None,
    context: Callable[[], AbstractContextManager[Any]] = contextlib.nullcontext,
    runs_example: bool = True,
) -> Summary:
    """Return the summary; ``prepare`` brings the example to the device, ``context`` is around the forward."""
    check_depth(max_depth)
    parameters = list(module.parameters())
    known = [one for one in parameters if not _is_lazy(one)]
    rows = {
        name: part
        for name, part in module.named_modules()
        if name and (max_depth < 0 or name.count(".") < max_depth)
    }
    modes = [part.training for part in module.modules() if part is not module]
    example = getattr(module, "example_input_array", None) if runs_example else None
    seen = _Seen()
    if example is not None:
        lazy = len(known) < len(parameters) or any(_is_lazy(one) for one in module.buffers())
        if lazy:
            seen.problem = "would give lazy params their shapes"
        else:
            seen.run(module, rows, example, prepare or _mover(module), context)
    layers = [seen.layer(module, name, part) for name, part in rows.items()]
    own = [one for name, one in module.named_parameters() if _is_outside(name, rows)] if rows else []
    if own:
        layers.append(_others(own))
    return Summary(
        max_depth=max_depth,
        layers=tuple(layers),
        total_parameters=sum(one.numel() for one in known),
        trainable_parameters=sum(one.numel() for one in known if one.requires_grad),
        model_bytes=sum(one.numel() * one.element_size() for one in known),
        num_lazy=len(parameters) - len(known),
        num_shared=_num_shared(rows, own),
        total_training_modules={"train": sum(modes), "eval": len(modes) - sum(modes)},
        has_example=seen.has_run,
        total_flops=seen.total_flops,
        problem=seen.problem,
    )


def check_depth(max_depth: object) -> int:
    """Return a depth of rows.

    Raises:
        ModuleError [module.summary-depth]: it is no int of -1 or more.
    """
    if type(max_depth) is not int or max_depth < -1:
        raise ModuleError(
            "module.summary-depth",
            f"a summary's max_depth cannot be {max_depth!r}",
            values={"max_depth": max_depth},
            because="it is how deep layers are listed: an int, 0 for the totals alone, -1 for all layers",
            hint="pass max_depth=1",
        )
    return max_depth


@final
class _Seen:
    """What one forward of the example showed."""

    def __init__(self) -> None:
        self.has_run, self.problem, self.total_flops = False, "", 0
        self._sizes: dict[torch.nn.Module, tuple[Any, Any]] = {}
        self._flops: Mapping[str, Any] = {}

    def run(
        self,
        module: torch.nn.Module,
        rows: Mapping[str, torch.nn.Module],
        example: Any,
        prepare: Callable[[Any], Any],
        context: Callable[[], AbstractContextManager[Any]],
    ) -> None:
        """Run the example; what goes wrong is kept as a line, as a table is not worth a run."""
        from torch.utils.flop_counter import FlopCounterMode

        counter = FlopCounterMode(display=False)
        # Hooks on scripted modules are not allowed.
        handles = [
            part.register_forward_hook(self._note, with_kwargs=True)
            for part in rows.values()
            if not isinstance(part, torch.jit.ScriptModule)
        ]
        try:
            with _eager(), untouched(module), context():
                given = prepare(example)
                with counter:
                    _call(module, given)
        except Exception as error:  # noqa: BLE001 - the user's own code
            self.problem = (
                f"cannot be run: {type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
            )
            self._sizes.clear()
        else:
            self.has_run, self.total_flops = True, int(counter.get_total_flops())
            self._flops = {name: sum(counts.values()) for name, counts in counter.get_flop_counts().items()}
        finally:
            for handle in handles:
                handle.remove()

    def _note(self, part: torch.nn.Module, given: Any, named: Any, output: Any) -> None:
        everything = [*given, *named.values()]
        self._sizes.setdefault(part, (shape_of(everything), shape_of(output)))

    def layer(self, module: torch.nn.Module, name: str, part: torch.nn.Module) -> Layer:
        parameters = list(part.parameters())
        in_size, out_size = self._sizes.get(part, (UNKNOWN, UNKNOWN))
        return Layer(
            name=name,
            layer_type=_type_name(part),
            num_parameters=_num(parameters),
            has_lazy=any(map(_is_lazy, parameters)),
            mode="train" if part.training else "eval",
            in_size=in_size,
            out_size=out_size,
            flops=int(self._flops.get(f"{type(module).__name__}.{name}", 0)),
        )


def _eager() -> AbstractContextManager[Any]:
    """Run a compiled part as it was written: nothing is compiled for a summary."""
    if "torch._dynamo" not in sys.modules:
        return contextlib.nullcontext()
    eager: AbstractContextManager[Any] = torch.compiler.set_stance("force_eager")
    return eager


def _call(module: torch.nn.Module, example: Any) -> None:
    if isinstance(example, Mapping):
        module(**example)
    elif isinstance(example, tuple):
        module(*example)
    else:
        module(example)


def _mover(module: torch.nn.Module) -> Callable[[Any], Any]:
    device = next((one.device for one in module.parameters()), torch.device("cpu"))
    return lambda example: map_leaves(
        example, lambda leaf: leaf.to(device) if isinstance(leaf, torch.Tensor) else leaf
    )


def shape_of(value: Any) -> Any:
    """Return the shape of a tensor, or of those in a list or dict; one alone stands for itself."""
    if isinstance(value, torch.Tensor):
        return list(value.shape)
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, (list, tuple)) and value:
        found = [shape_of(one) for one in value]
        return found[0] if len(found) == 1 else found
    return UNKNOWN


def _type_name(part: torch.nn.Module) -> str:
    if isinstance(part, torch.jit.ScriptModule):
        return str(part.original_name)
    return type(part).__name__


def _is_lazy(tensor: torch.Tensor) -> bool:
    return bool(is_lazy(tensor))


def _num(parameters: Sequence[torch.nn.Parameter]) -> int:
    return sum(one.numel() for one in parameters if not _is_lazy(one))


def _is_outside(name: str, rows: Mapping[str, torch.nn.Module]) -> bool:
    """Whether no row holds a parameter: it stands in the module itself, beside its layers."""
    return name.partition(".")[0] not in rows


def _others(parameters: Sequence[torch.nn.Parameter]) -> Layer:
    return Layer(_OTHER, "n/a", _num(parameters), any(map(_is_lazy, parameters)))


def _num_shared(rows: Mapping[str, torch.nn.Module], own: Sequence[torch.nn.Parameter]) -> int:
    """Return how many numbers are in several rows of which none stands within another."""
    outer = {name.rpartition(".")[0] for name in rows}
    counts = Counter(one for name, part in rows.items() if name not in outer for one in part.parameters())
    counts.update(own)
    return sum(one.numel() for one, count in counts.items() if count > 1 and not _is_lazy(one))


def _count(layer: Layer) -> str:
    known = human(layer.num_parameters)
    if not layer.has_lazy:
        return known
    return f"{known} + {UNKNOWN}" if layer.num_parameters else UNKNOWN


def human(number: int) -> str:
    """Return a count in at most four digits or so: ``1.2 K``."""
    value, unit = float(number), 0
    while value >= _THOUSAND and unit < len(_UNITS) - 1:
        value, unit = value / _THOUSAND, unit + 1
    if unit and round(value, 1) >= _THOUSAND and unit < len(_UNITS) - 1:
        value, unit = value / _THOUSAND, unit + 1
    return f"{value:,.1f}{_UNITS[unit]}" if unit else str(number)


def totals(
    total_parameters: int,
    trainable_parameters: int,
    model_size: float,
    total_training_modules: Mapping[str, int],
    total_flops: int,
) -> list[tuple[str, str]]:
    """Return the lines below the table, each a value and what it is."""
    lines = [
        (human(trainable_parameters), "Trainable params"),
        (human(total_parameters - trainable_parameters), "Non-trainable params"),
        (human(total_parameters), "Total params"),
        (f"{model_size:,.3f}", "Total estimated model params size (MB)"),
        (str(total_training_modules.get("train", 0)), "Modules in train mode"),
        (str(total_training_modules.get("eval", 0)), "Modules in eval mode"),
    ]
    return [*lines, (human(total_flops), "Total FLOPs")] if total_flops else lines


def table(
    columns: Sequence[tuple[str, Sequence[str]]],
    totals: Sequence[tuple[str, str]] = (),
    remarks: Sequence[str] = (),
) -> str:
    """Lay columns out as text, with lines of totals and remarks below."""
    wide = [max(len(title), *map(len, cells), 0) for title, cells in columns] if columns[0][1] else []
    lines = []
    if wide:
        lines = [" | ".join(title.ljust(width) for (title, _), width in zip(columns, wide, strict=True))]
        rule = "-" * len(lines[0])
        lines[0] = lines[0].rstrip()
        lines.append(rule)
        for cells in zip(*(cells for _, cells in columns), strict=True):
            lines.append(
                " | ".join(cell.ljust(width) for cell, width in zip(cells, wide, strict=True)).rstrip()
            )
        lines.append(rule)
    margin = max((len(value) for value, _ in totals), default=0) + 2
    lines += [f"{value:<{margin}}{what}" for value, what in totals]
    return "\n".join([*lines, *remarks])
