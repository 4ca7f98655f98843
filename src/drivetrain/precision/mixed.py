"""Parameters in float32, arithmetic in a shorter format: bf16-mixed, 16-mixed."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager
from typing import Any, final

import torch
from torch.amp.grad_scaler import GradScaler

from drivetrain.base.errors import TrainerError
from drivetrain.base.tree import map_leaves
from drivetrain.precision.precision import Precision
from drivetrain.resolver.facts import PrecisionFacts
from drivetrain.resolver.known.precisions import mixed as known

_FACTS = {facts.name: facts for facts in known.FACTS}
_TYPES = {"bf16-mixed": torch.bfloat16, "16-mixed": torch.float16}
_SCALE, _GROWTH = 65536.0, 2000


@final
class MixedPrecision(Precision):
    """Autocast: ``MixedPrecision("bf16-mixed")``, ``MixedPrecision("16-mixed", init_scale=1024.0)``.

    Parameters, gradients, buffers and the optimizer stay float32; autocast picks the operations that
    run in the shorter format. bfloat16 has float32's range; with float16 the loss is scaled, by
    ``init_scale`` (65536) at first, by half of it after gradients that overflowed, and by twice as much
    after ``growth_interval`` (2000) steps without.

    Raises:
        TrainerError [trainer.bad-argument]: a scale for bfloat16, which has none; one that is not above 0.
    """

    def __init__(
        self, name: str = "bf16-mixed", *, init_scale: float | None = None, growth_interval: int | None = None
    ) -> None:
        self.name = name
        self._dtype = _TYPES[name]
        self.scales_loss = self._dtype is torch.float16
        for option, value in (("init_scale", init_scale), ("growth_interval", growth_interval)):
            is_whole = option == "init_scale" or type(value) is int
            if value is not None and not (self.scales_loss and is_whole and _is_above_zero(value)):
                raise _bad(name, option, value)
        self.init_scale, self.growth_interval = init_scale, growth_interval
        self.scaler: GradScaler | None = None
        """torch's own, in a run whose loss is scaled."""
        self.num_left_out = 0
        """Optimizer steps of this run that were left out, as their gradients overflowed."""
        self._is_finite: dict[torch.optim.Optimizer, bool] = {}
        """Of each optimizer whose gradients have their true size, whether they are finite."""
        self._has_looked = self._has_scaled = False
        """Whether any of them had gradients to look at; whether any loss was scaled in this run."""

    @property
    def facts(self) -> PrecisionFacts:
        """Return the facts of the format."""
        return _FACTS[self.name]

    @property
    def computes_in(self) -> torch.dtype:
        """bfloat16 or float16."""
        return self._dtype

    @property
    def scale(self) -> float:
        """By how much the loss is multiplied; 1 where it is not. Reads the device."""
        return 1.0 if self.scaler is None else float(self.scaler.get_scale())

    def setup(self, device: torch.device) -> None:
        """Make a scaler for the device, where the loss is scaled."""
        self._is_finite, self._has_looked, self._has_scaled, self.num_left_out = {}, False, False, 0
        if self.scales_loss:
            self.scaler = GradScaler(
                device.type,
                init_scale=_SCALE if self.init_scale is None else float(self.init_scale),
                growth_interval=_GROWTH if self.growth_interval is None else self.growth_interval,
            )
            self.scaler.scale(torch.ones((), device=device))  # brings the scale to the device

    def convert_module(self, module: torch.nn.Module) -> None:
        """Leave the module as it is: float32."""

    def convert_input(self, batch: Any) -> Any:
        """Bring float64 and half inputs to float32; autocast shortens what may be short."""
        return self.cast_floating(batch, torch.float32)

    def convert_output(self, output: Any) -> Any:
        """Bring what autocast shortened to float32."""
        return map_leaves(
            output,
            lambda one: one.float() if isinstance(one, torch.Tensor) and one.dtype is self._dtype else one,
        )

    def forward_context(self, device_type: str) -> AbstractContextManager[Any]:
        """Return torch's autocast for the device."""
        return torch.autocast(device_type, dtype=self._dtype)

    def scale_loss(self, loss: torch.Tensor) -> torch.Tensor:
        """Return the loss times the scale; bfloat16 does not underflow, and its loss is returned as it is."""
        if self.scaler is None:
            return loss
        self._has_scaled = True
        return self.scaler.scale(loss)

    def unscale(self, optimizer: torch.optim.Optimizer) -> bool:
        """Divide the optimizer's gradients by the scale; False when some are inf or nan."""
        if self.scaler is None or not self._has_scaled:
            return True  # the user may have called loss.backward() himself
        if optimizer not in self._is_finite:
            self.scaler.unscale_(optimizer)
            # What torch found is nowhere public; without it the step itself would have to be torch's too.
            found = self.scaler._found_inf_per_device(optimizer).values()  # noqa: SLF001 - as above
            is_finite = not any(one.item() for one in found)
            self._is_finite[optimizer] = is_finite
            self._has_looked |= bool(found)
            self.num_left_out += not is_finite
        return self._is_finite[optimizer]

    def rescale(self) -> None:
        """Halve the scale after an overflow, double it when there was none for long."""
        if self.scaler is None or not self._is_finite:
            return
        # Where no parameter had a gradient nothing was learnt of the scale, and torch asks to be told one.
        self.scaler.update(None if self._has_looked else self.scaler.get_scale())
        self._is_finite, self._has_looked = {}, False

    def state_dict(self) -> dict[str, Any]:
        """Return the scaler's state; nothing where the loss is not scaled."""
        return {} if self.scaler is None else self.scaler.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take up a scale, where this format has one and the run that saved it had; options stay this run's.

        Raises:
            ValueError: the scale is not a number above 0.
        """
        if self.scaler is None or not state:
            return
        scale, tracker = state["scale"], state["_growth_tracker"]
        if not _is_above_zero(scale) or type(tracker) is not int:
            message = f"a scale of {scale!r} after {tracker!r} steps"
            raise ValueError(message)
        kept = {"scale": float(scale), "_growth_tracker": tracker}
        self._has_scaled = True  # gradients of a window that is still open
        self.scaler.load_state_dict({**self.scaler.state_dict(), **kept})


def _is_above_zero(value: object) -> bool:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number and value > 0 and math.isfinite(value)  # type: ignore[operator,arg-type]  # a number, as was seen


def _bad(name: str, option: str, value: object) -> TrainerError:
    kind = "a finite number" if option == "init_scale" else "a whole number"
    because = f"{option} is {kind} above 0" if name == "16-mixed" else f"{name} does not scale the loss"
    return TrainerError(
        "trainer.bad-argument",
        f"MixedPrecision({name!r}, {option}={value!r})",
        values={"name": name, option: value},
        because=because,
        hint=f"leave {option} out" if name != "16-mixed" else f"pass {option}=1024",
    )
