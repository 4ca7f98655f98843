"""Taking torch's sharding off a module again: it changes modules in place, and has no way back."""

from __future__ import annotations

from typing import Any

import torch
from torch.distributed import _composable_state
from torch.distributed._composable.contract import REGISTRY_KEY, STATE_KEY
from torch.distributed.fsdp import FSDPModule

_HOOKS = (
    "_forward_pre_hooks",
    "_forward_hooks",
    "_state_dict_pre_hooks",
    "_state_dict_hooks",
    "_load_state_dict_pre_hooks",
    "_load_state_dict_post_hooks",
)
_BESIDE = ("_forward_pre_hooks_with_kwargs", "_forward_hooks_with_kwargs", "_forward_hooks_always_called")
"""What torch says of a hook, under the same number."""
_MARKS = (STATE_KEY, REGISTRY_KEY, "_is_fsdp_managed_module", "_fsdp_use_orig_params")


def unwrap(module: torch.nn.Module) -> None:
    """Give a module, and each in it, its class back, without the hooks and marks of ``fully_shard``.

    Hooks of the user's stay, also those of the run; parameters are left as they are.
    """
    for part in module.modules():
        if isinstance(part, FSDPModule):
            # torch puts its own class before the module's, and that is all of the class that it makes.
            part.__class__ = next(one for one in type(part).__bases__ if one is not FSDPModule)
            _composable_state._module_state_mapping.pop(part, None)  # noqa: SLF001 - torch forgets nothing
        for mark in _MARKS:
            vars(part).pop(mark, None)
        for name in _HOOKS:
            hooks = vars(part)[name]
            for key in [key for key, hook in hooks.items() if _is_torchs(hook)]:
                del hooks[key]
                for beside in _BESIDE:
                    vars(part)[beside].pop(key, None)


def _is_torchs(hook: Any) -> bool:
    function = getattr(hook, "hook", hook)  # some are kept with the module that they are for
    return str(getattr(function, "__module__", "")).startswith("torch.distributed.fsdp")
