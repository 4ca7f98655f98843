"""How new modules are made where they will train: on the device, in the format, empty where asked."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any, final

import torch
from torch.overrides import TorchFunctionMode

_SHARDED = ("dp_shard", "tp", "pp", "ep")
"""Mesh axes over which a module's parameters are divided."""
_FILLS = frozenset({"uniform_", "normal_", "fill_", "zero_"})


@contextlib.contextmanager
def made_on(
    device: torch.device, dtype: torch.dtype | None, layout: Mapping[str, int], *, empty: bool | None
) -> Iterator[None]:
    """Make what is new in a block on ``device``, in ``dtype`` if it says one.

    ``empty`` leaves parameters as memory has them: for weights that are loaded afterwards. Where ranks will
    hold parts of the parameters, they are made on the meta device, without memory, unless ``empty`` is False.
    """
    is_sharded = any(layout.get(axis, 1) > 1 for axis in _SHARDED)
    on_meta = is_sharded and empty is not False
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.device("meta") if on_meta else device)
        if dtype is not None:
            stack.enter_context(_default(dtype))
        if empty and not on_meta:
            stack.enter_context(_Empty())
        yield


@contextlib.contextmanager
def _default(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


@final
class _Empty(TorchFunctionMode):
    """Leaves out what fills parameters; buffers get their values."""

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        named = kwargs or {}
        target = args[0] if args else named.get("tensor")
        if isinstance(target, torch.nn.Parameter) and (
            getattr(func, "__module__", None) == "torch.nn.init" or getattr(func, "__name__", "") in _FILLS
        ):
            return target
        return func(*args, **named)
