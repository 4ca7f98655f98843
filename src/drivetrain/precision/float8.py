"""Matrix products of linear layers in 8-bit floats, through torchao: fp8."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, final

import torch

from drivetrain.base.errors import BuildError, TrainerError
from drivetrain.base.loading import Later
from drivetrain.machine import probe
from drivetrain.precision.mixed import MixedPrecision
from drivetrain.precision.precision import Precision
from drivetrain.resolver.facts import PrecisionFacts
from drivetrain.resolver.known.precisions import float8 as known

if TYPE_CHECKING:
    from drivetrain.precision import float8_layer
else:
    float8_layer = Later("drivetrain.precision.float8_layer")

_FACTS = known.FACTS[0]
RECIPES = ("tensorwise", "rowwise")
_MULTIPLE = 16
"""Hardware multiplies blocks: a layer whose sides are no multiple of it is not converted."""
_CAPABILITY = (8, 9)
"""The first CUDA devices that multiply 8-bit floats: Ada, Hopper."""


@final
class Float8Precision(Precision):
    """``bf16-mixed`` with the products of linear layers in 8-bit floats: ``Float8Precision(skip=["head"])``.

    A layer rounds its inputs, its weight and the gradients that reach it to float8, each scaled to fill the
    format: by one number a tensor (``recipe="tensorwise"``) or a row (``"rowwise"``). Parameters, gradients
    and optimizer states are float32 as in ``bf16-mixed``. The layers stay the module's own objects, with
    their names and hooks, and are plain again after the run.

    ``skip`` has names of layers, or patterns of them, that stay in bfloat16: ``"head"``, ``"blocks.*.gate"``.
    Those whose sides are no multiples of 16 always do. ``emulate`` rounds to float8 and multiplies in
    bfloat16, for devices that cannot multiply float8: the same rounding, none of the speed.

    Raises:
        TrainerError [trainer.bad-argument]: a recipe that is none; a skip that names no layer.
    Source:
        Micikevicius et al. 2022, FP8 Formats for Deep Learning; torchao.float8.
    """

    name = "fp8"

    def __init__(
        self,
        name: str = "fp8",
        *,
        recipe: str = "tensorwise",
        skip: Sequence[str] = (),
        emulate: bool = False,
    ) -> None:
        if name != self.name:
            raise _bad("name", name, f"this format is {self.name!r}", "leave name out")
        if recipe not in RECIPES:
            raise _bad(
                "recipe", recipe, f"recipe is one of: {', '.join(RECIPES)}", f"pass recipe={RECIPES[0]!r}"
            )
        if isinstance(skip, str):
            raise _bad("skip", skip, "skip has several names", f"pass skip=[{skip!r}]")
        self.recipe, self.skip, self.emulate = recipe, tuple(skip), emulate
        self._mixed = MixedPrecision("bf16-mixed")
        self._layers: dict[torch.nn.Module, str] = {}

    @property
    def facts(self) -> PrecisionFacts:
        """Return the facts of the format."""
        return _FACTS

    @property
    def computes_in(self) -> torch.dtype:
        """bfloat16, in which everything is but the products of the layers."""
        return torch.bfloat16

    @property
    def converted(self) -> tuple[str, ...]:
        """Names of the layers that multiply in float8, of the run that goes on or the last one."""
        return tuple(self._layers.values())

    def setup(self, device: torch.device) -> None:
        """See whether the device multiplies 8-bit floats.

        Raises:
            BuildError [build.device-lacks]: it does not, and nobody asked to ``emulate``.
        """
        self._layers = {}
        if device.type == "cuda" and not self.emulate:
            name, capability = probe.cuda_generation(device.index)
            if capability < _CAPABILITY:
                raise _lacks(name, capability)

    def convert_module(self, module: torch.nn.Module) -> None:
        """Let linear layers compute in float8, each as the object that it is.

        Raises:
            TrainerError [trainer.bad-argument]: ``skip`` has a name that no linear layer bears.
        """
        layers = dict(_linear(module))
        for pattern in self.skip:
            if not any(fnmatchcase(name, pattern) for name in layers):
                raise _bad(
                    "skip",
                    pattern,
                    f"the linear layers are: {', '.join(layers) or 'none'}",
                    f"leave {pattern!r} out of skip",
                )
        for name, layer in layers.items():
            if self._fits(name, layer):
                float8_layer.put_on(layer, self.recipe, emulate=self.emulate)
                self._layers[layer] = name

    def _fits(self, name: str, layer: torch.nn.Linear) -> bool:
        sides = (layer.in_features, layer.out_features)
        return not (
            type(layer) is not torch.nn.Linear  # a class of somebody's own may compute something else
            or "weight"
            not in dict(layer.named_parameters(recurse=False))  # one that is pruned or parametrized
            or any(side % _MULTIPLE for side in sides)
            or any(fnmatchcase(name, pattern) for pattern in self.skip)
        )

    def restore_module(self, module: torch.nn.Module) -> None:
        """Make the layers plain again."""
        for layer in module.modules():
            if layer in self._layers:
                float8_layer.take_off(layer)

    def convert_input(self, batch: Any) -> Any:
        """Bring float64 and half inputs to float32."""
        return self._mixed.convert_input(batch)

    def convert_output(self, output: Any) -> Any:
        """Bring what autocast shortened to float32."""
        return self._mixed.convert_output(output)

    def forward_context(self, device_type: str) -> AbstractContextManager[Any]:
        """Return torch's autocast to bfloat16, for everything else."""
        return self._mixed.forward_context(device_type)

    def scale_loss(self, loss: torch.Tensor) -> torch.Tensor:
        """Return the loss itself: each tensor has a scale of its own."""
        return loss

    def unscale(self, optimizer: torch.optim.Optimizer) -> bool:  # noqa: ARG002 - nothing was scaled
        """Return True: gradients have their true size."""
        return True

    def state_dict(self) -> dict[str, Any]:
        """Return nothing: scales are found anew for each product."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Do nothing: there is no state."""


def _linear(module: torch.nn.Module) -> Iterator[tuple[str, torch.nn.Linear]]:
    for name, part in module.named_modules():
        if isinstance(part, torch.nn.Linear):
            yield name, part


def _bad(option: str, value: object, because: str, hint: str) -> TrainerError:
    return TrainerError(
        "trainer.bad-argument",
        f"Float8Precision({option}={value!r})",
        values={option: value},
        because=because,
        hint=hint,
    )


def _lacks(device: str, capability: tuple[int, int]) -> BuildError:
    return BuildError(
        "build.device-lacks",
        f"{device} does not multiply 8-bit floats",
        values={"precision": "fp8", "compute capability": ".".join(map(str, capability))},
        because=f"it takes compute capability {'.'.join(map(str, _CAPABILITY))} or above",
        hint="pass precision='bf16-mixed', "
        "or plugins=[dt.Float8Precision(emulate=True)] to round alike without speed",
    )
