"""Exporting: a module in other formats, of its weights as they are."""

from __future__ import annotations

import inspect
import os
import types
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any, TypeAlias

import torch

from drivetrain.base.errors import BuildError, ModuleError
from drivetrain.base.loading import Later
from drivetrain.base.tree import map_leaves
from drivetrain.machine import installed

if TYPE_CHECKING:
    from drivetrain.modules import aside
else:
    aside = Later("drivetrain.modules.aside")

StrPath: TypeAlias = "str | os.PathLike[str]"

_METHODS = ("script", "trace")


class Exporting(torch.nn.Module):
    """Writes `forward`, in eval mode and without gradients; the module stays as it is, in a run as well.

    Examples are what `forward` takes: a tensor, a tuple of arguments, or a dict of them by name; None takes
    ``example_input_array``. They are moved to the module's device.
    """

    example_input_array: Any = None
    """An input of `forward`, for summaries, graphs and exports: a tensor, a tuple, or a dict of arguments."""

    def to_onnx(
        self, file_path: StrPath | IO[bytes] | None = None, input_sample: Any = None, **kwargs: Any
    ) -> Any:
        """Write the module as ONNX; return what ``torch.onnx.export`` returns, which takes ``kwargs``.

        Raises:
            BuildError [build.package-missing]: onnxscript, or with ``dynamo=False`` onnx, is not installed.
            ModuleError [module.no-example]: there is no example.
        """
        arguments, named = self._example("to_onnx", input_sample)
        by_graph = kwargs.get("dynamo", inspect.signature(torch.onnx.export).parameters["dynamo"].default)
        _check_installed("to_onnx", "onnxscript" if by_graph else "onnx", 'pip install "drivetrain[onnx]"')
        is_stream = file_path is not None and not isinstance(file_path, (str, os.PathLike))
        with aside.untouched(self):
            # The graph exporter writes files only, and the older one takes only the three cases apart.
            target = None if is_stream and by_graph else file_path
            program = torch.onnx.export(self, arguments, target, kwargs=named or None, **kwargs)  # type: ignore[arg-type]  # a stream too, where it is taken
        if is_stream and by_graph:
            file_path.write(program.model_proto.SerializeToString())  # type: ignore[union-attr]  # a stream, and a program
        return program

    def to_torchscript(
        self,
        file_path: StrPath | None = None,
        method: str = "script",
        example_inputs: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Return the module as TorchScript, and write it to ``file_path``; ``trace`` follows one example.

        torch has deprecated TorchScript, and says so. ``kwargs`` go to ``torch.jit.script`` or ``trace``.

        Raises:
            ModuleError [module.export-method]: a method other than ``script`` and ``trace``.
            ModuleError [module.no-example]: ``trace``, and there is no example.
        """
        if method not in _METHODS:
            raise ModuleError(
                "module.export-method",
                f"to_torchscript(method={method!r})",
                values={"method": method},
                because="TorchScript is made of the code, method='script', or of one call, method='trace'",
                hint="pass method='script'",
            )
        arguments, named = self._example("to_torchscript", example_inputs) if method == "trace" else ((), {})
        with aside.untouched(self), _in_no_run(self):
            if method == "script":
                made: Any = torch.jit.script(self, **kwargs)
            elif named:
                made = torch.jit.trace(self, example_kwarg_inputs=named, **kwargs)  # type: ignore[no-untyped-call]  # torch's own
            else:
                made = torch.jit.trace(self, arguments, **kwargs)  # type: ignore[no-untyped-call]  # as above
        if file_path is not None:
            import fsspec

            with fsspec.open(os.fspath(file_path), "wb") as file:
                torch.jit.save(made, file)
        return made

    def to_tensorrt(
        self,
        file_path: StrPath | None = None,
        input_sample: Any = None,
        ir: str = "default",
        output_format: str = "exported_program",
        retrace: bool = False,
        **compile_kwargs: Any,
    ) -> Any:
        """Return the module compiled by torch_tensorrt, and write it to ``file_path``.

        The module has to be on a CUDA device. ``ir="ts"`` goes through `to_torchscript`.

        Raises:
            BuildError [build.package-missing]: torch_tensorrt is not installed.
            ModuleError [module.no-example]: there is no example.
        """
        _check_installed("to_tensorrt", "torch_tensorrt", "pip install torch-tensorrt")
        import torch_tensorrt

        arguments, named = self._example("to_tensorrt", input_sample)
        inputs = [*arguments, *named.values()]
        model = self.to_torchscript(method="trace", example_inputs=input_sample) if ir == "ts" else self
        with aside.untouched(self):
            made = torch_tensorrt.compile(model, ir=ir, inputs=inputs, **compile_kwargs)
            if file_path is not None and ir == "ts":
                torch.jit.save(made, os.fspath(file_path))
            elif file_path is not None:
                torch_tensorrt.save(
                    made, os.fspath(file_path), inputs=inputs, output_format=output_format, retrace=retrace
                )
        return made

    def _example(self, verb: str, given: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return an example as arguments by place and by name, on the module's device."""
        example = self.example_input_array if given is None else given
        if example is None:
            raise ModuleError(
                "module.no-example",
                f"{verb} of {type(self).__name__}, and there is no example of an input",
                values={"class": type(self).__qualname__, "example_input_array": None},
                because="a model is followed through one call of forward, on inputs of the right shapes",
                hint=f"pass one to {verb}, or set self.example_input_array in __init__",
            )
        device = next((one.device for one in self.parameters()), torch.device("cpu"))
        moved = map_leaves(example, lambda leaf: leaf.to(device) if isinstance(leaf, torch.Tensor) else leaf)
        if isinstance(moved, Mapping):
            return (), dict(moved)
        return (moved if isinstance(moved, tuple) else (moved,)), {}


@contextmanager
def _in_no_run(module: torch.nn.Module) -> Iterator[None]:
    """Stand in for the run while TorchScript reads every property that the module has."""
    own = vars(module).get("_run")
    # No class of ours: TorchScript would write an attribute's class into the file.
    vars(module)["_run"] = types.SimpleNamespace(
        loggers=(), current_epoch=0, global_step=0, global_rank=0, local_rank=0
    )
    try:
        yield
    finally:
        vars(module)["_run"] = own


def _check_installed(verb: str, module: str, command: str) -> None:
    if not installed.has_module(module):
        raise BuildError(
            "build.package-missing",
            f"{verb} needs {module}, which is not installed",
            values={"module": module},
            because="this format is written by another package",
            hint=command,
        )
