"""EngineModule: a module whose forward passes through the strategy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, final

import torch

from drivetrain.base.errors import EngineError
from drivetrain.strategies.strategy import Strategy


@final
class EngineModule(torch.nn.Module):
    """Call it as the module itself; its parameters, state_dict and attributes are the module's own.

    Methods that compute a loss or an output by another way than ``forward`` are named to
    `mark_forward_method`, so that they pass through the strategy too.
    """

    def __init__(self, module: torch.nn.Module, strategy: Strategy) -> None:
        super().__init__()
        self._inner = module
        self._strategy = strategy
        self._methods = {"forward"}
        self._has_run = self._was_checked = False
        self.training = module.training
        strategy.setup(module, self._run)

    def _run(self, method: str, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        called = self._inner if method == "forward" else getattr(self._inner, method)
        return called(*arguments, **named)

    def forward(self, *arguments: Any, **named: Any) -> Any:
        """Run the module's forward, in the precision's format and prepared for backward.

        With mixed precision what it returns is float32 again: a loss that is computed of it is not rounded.
        """
        return self._through("forward", arguments, named)

    def _through(self, method: str, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        arguments, named = self._strategy.precision.convert_input((arguments, named))
        if torch.is_grad_enabled():
            self._has_run = True
            output = self._strategy.training_step(method, arguments, named)
        else:
            output = self._strategy.evaluation_step(self._run, method, arguments, named)
        return self._strategy.precision.convert_output(output)

    def after_backward(self) -> None:
        """Combine gradients, where that is not done within backward, of a module that was run for it.

        Raises:
            ModuleError [strategy.unused-parameters]: the first time, some parameters got none.
        """
        if not self._has_run:
            return
        self._has_run = False
        self._strategy.combine_gradients(late=False)
        if not self._was_checked:
            self._was_checked = True
            self._strategy.check_gradients()

    def gather(self) -> None:
        """Make the module whole, at the end of a run that did not fail; every rank must call."""
        self._strategy.gather_model(self._inner)

    def release(self) -> None:
        """Take off what the strategy put around the module."""
        self._strategy.teardown(self._inner)

    @property
    def module(self) -> torch.nn.Module:
        """The module itself."""
        return self._inner

    def mark_forward_method(self, method: Any) -> None:
        """Let a method pass through the strategy as forward does.

        Raises:
            EngineError [engine.not-a-method]: the module has none of that name.
        """
        name = method if isinstance(method, str) else method.__name__
        if not callable(getattr(self._inner, name, None)):
            raise EngineError(
                "engine.not-a-method",
                f"{type(self._inner).__name__} has no method {name!r}",
                values={"module": type(self._inner).__qualname__, "method": name},
                because="only a method of the module that was set up can pass through the strategy",
                hint="name a method of the module: engine_module.mark_forward_method('generate')",
            )
        self._methods.add(name)

    def state_dict(self, *arguments: Any, **named: Any) -> dict[str, Any]:  # type: ignore[override]  # hands all on
        """Return the module's own state_dict."""
        return self._inner.state_dict(*arguments, **named)

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> Any:
        """Load the module's own state_dict."""
        return self._inner.load_state_dict(state_dict, strict=strict, assign=assign)

    def named_parameters(self, *arguments: Any, **named: Any) -> Any:
        """Return the module's own parameters under their own names."""
        return self._inner.named_parameters(*arguments, **named)

    def train(self, mode: bool = True) -> EngineModule:
        """Set the mode of the module."""
        super().train(mode)
        return self

    def __getattr__(self, name: str) -> Any:
        """Reach through to the module."""
        try:
            return super().__getattr__(name)
        except AttributeError:
            found = getattr(super().__getattr__("_inner"), name)
        if name in super().__getattribute__("_methods"):
            return lambda *arguments, **named: self._through(name, arguments, named)
        return found
