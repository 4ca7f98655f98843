"""Fully sharded data parallel: each rank has a part of everything, by torch's ``fully_shard``."""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, final

import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import (
    CPUOffloadPolicy,
    FSDPModule,
    MixedPrecisionPolicy,
    OffloadPolicy,
    fully_shard,
)
from torch.nn.parameter import is_lazy
from torch.utils.checkpoint import checkpoint
from torch.utils.weak import WeakIdKeyDictionary

from drivetrain.base.errors import ModuleError
from drivetrain.strategies import dtensors
from drivetrain.strategies.clipping import clip_whole
from drivetrain.strategies.materializing import fill
from drivetrain.strategies.mean import average_gradients
from drivetrain.strategies.mesh import make_mesh
from drivetrain.strategies.parts import is_in_parts
from drivetrain.strategies.strategy import Parts, Strategy
from drivetrain.strategies.units import units_of
from drivetrain.strategies.unwrapping import unwrap

_AXES = ("dp_replicate", "dp_shard")
_PARTS: Any = WeakIdKeyDictionary()
"""What became of parameters that were sharded: optimizers may have been made with them before."""


@final
class FSDPRuntime(Strategy):
    """Each rank has a part of each parameter, of its gradient and of the optimizer's state.

    A unit of the model is gathered before its forward and backward, and let go after it. On a mesh with
    ``dp_replicate`` the parts lie within groups of ranks, and gradients are averaged over the groups (HSDP).
    """

    reduces_at_once = True
    allows_inference_mode = False

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self._casts = bool(self.options.get("cast_parameters")) and self.precision.computes_in is not None
        """Whether units compute in the shorter format throughout, and not where autocast chooses it."""
        self._step: Callable[..., Any] | None = None
        self._is_wrapped = False
        self._root: _Root | None = None
        self._roots: list[torch.nn.Module] = []
        """What is sharded, each with the units in it; empty where nothing is."""
        self._whole: list[torch.nn.Parameter] = []
        """Parameters that stay whole on each rank."""
        self._origins: list[tuple[torch.nn.Module, str, torch.nn.Parameter]] = []
        """Who had which parameter before it was sharded."""
        self._recomputing: list[torch.nn.Module] = []
        self._optimizers: list[torch.optim.Optimizer] = []

    def setup(
        self, module: torch.nn.Module, step: Callable[..., Any] | None, *, one_backward: bool = True
    ) -> None:
        """Convert the module, and shard it unit by unit, so that it is whole on a device at no time.

        Where a step has several backwards, each module in the module is sharded for itself, and parameters of
        the module itself stay whole on each rank.

        Raises:
            ModuleError [strategy.no-values]: a parameter was made without memory; nothing gives it values.
            ModuleError [strategy.lazy-parameters]: a parameter has no shape yet.
            ModuleError [strategy.left-in-parts]: a run that failed has left it in parts.
            ModuleError [strategy.no-units]: activations are to be computed once more, and no part is a unit.
            ModuleError [strategy.no-short-format]: parameters are to be cast, to the format that they have.
        """
        if self.options.get("cast_parameters") and not self._casts:
            raise _no_short_format(self.precision.name)
        self.precision.convert_module(module)
        self._step = step
        units = units_of(module, self._listed("wrap"), self.options.get("min_num_params"))
        if self.options.get("activation_checkpointing"):
            if not units:
                raise _no_units(module)
            for unit in units:
                self._recompute(unit)
        if self.ranks.world_size == 1:
            module.to(self.device)
            return
        _check(module)
        if step is not None:
            self.sync_layers(module)
        self._is_wrapped = True
        before = {(part, name): one for part, name, one in _owned(module)}
        roots = [module] if one_backward else [*_callable_parts(module)]
        inside = {id(one) for root in roots for one in root.parameters()}
        self._whole = [one for one in module.parameters() if id(one) not in inside]
        self._bring([*module.buffers()])
        shard = self._sharding()
        for unit in units:
            self._ready(unit)
            shard(unit, reshard_after_forward=self.options.get("reshard_after_forward", True))
        self._ready(module)
        self._root = _Root(module) if one_backward else None
        self._roots = [self._root] if self._root is not None else roots
        for root in self._roots:
            # What is around the units is needed first and last in a step, so it is not let go between.
            if root not in units:
                shard(root, reshard_after_forward=False)
        self._note_origins(module, before)

    def _listed(self, option: str) -> list[str] | None:
        said = self.options.get(option)
        return [said] if isinstance(said, str) else said

    def _sharding(self) -> Callable[..., Any]:
        on_cpu, mixed = self.device.type == "cpu", self.precision.computes_in
        return functools.partial(
            fully_shard,
            mesh=self._mesh(),
            mp_policy=MixedPrecisionPolicy(mixed, torch.float32)
            if self._casts
            else MixedPrecisionPolicy(cast_forward_inputs=False),
            offload_policy=CPUOffloadPolicy(pin_memory=not on_cpu)
            if self.options.get("cpu_offload")
            else OffloadPolicy(),
        )

    def _mesh(self) -> DeviceMesh:
        sizes = {axis: self.layout.get(axis, 1) for axis in _AXES}
        if sizes["dp_replicate"] == 1:
            del sizes["dp_replicate"]
        return make_mesh(self.device, sizes)

    def _ready(self, unit: torch.nn.Module) -> None:
        """Bring a unit's parameters to the device, those of rank 0; what units in it have is there."""
        for part in unit.modules():
            fill(part, self.device)
            self._bring([one for one in part.parameters(recurse=False) if not is_in_parts(one)])

    @torch.no_grad()
    def _bring(self, tensors: Sequence[torch.Tensor]) -> None:
        for one in tensors:
            if one.is_meta:
                continue  # a buffer that comes with its module's parameters
            if one.device != self.device:
                one.data = one.data.to(self.device)
            one.copy_(self.collectives.broadcast(one.detach(), source=0))

    def _recompute(self, unit: torch.nn.Module) -> None:
        """Compute the unit once more in backward, in place of keeping what its forward has made."""
        forward = unit.forward
        unit.forward = functools.partial(checkpoint, forward, use_reentrant=False)
        self._recomputing.append(unit)

    def _note_origins(
        self, module: torch.nn.Module, before: Mapping[tuple[torch.nn.Module, str], torch.nn.Parameter]
    ) -> None:
        """Remember what each part was, and let its memory go: the user's objects come back at the end."""
        for part, name, one in _owned(module):
            origin = before[part, name]
            if is_in_parts(one):
                self._origins.append((part, name, origin))
                _PARTS[origin] = one
                origin.grad = None
        for _, _, origin in self._origins:
            if not origin.is_meta:
                origin.data = origin.data.new_empty(0)

    def teardown(self, module: torch.nn.Module) -> None:
        """Take off what is around the module. After `gather_model` it is whole; else it stays in parts."""
        for unit in self._recomputing:
            vars(unit).pop("forward", None)
        self._step = self._root = None
        self._roots, self._whole, self._recomputing, self._optimizers = [], [], [], []
        self._origins = []
        if self._is_wrapped:
            self._is_wrapped = False
            unwrap(module)
            gc.collect()  # torch's states refer to each other, and must not outlive their process group
        self.unsync_layers(module)
        self.precision.restore_module(module)
        if self.device.type != "cpu" and not any(is_in_parts(one) for one in module.parameters()):
            module.cpu()

    def share_buffers(self, module: torch.nn.Module) -> None:
        """Give every rank rank 0's buffers."""
        if self._roots:
            self._bring([*module.buffers()])

    def training_step(self, *arguments: Any) -> Any:
        """Run the step; through what gathers the parameters around the units, where there is one backward."""
        assert self._step is not None, "the strategy was not set up to train"  # noqa: S101 - our own bug
        with self._forward_context():
            return self._step(*arguments) if self._root is None else self._root(self._step, *arguments)

    def evaluation_step(self, step: Callable[..., Any], *arguments: Any) -> Any:
        """Run a step without gradients.

        Collectives:
            an all_gather for each unit; every rank must call, equally often.
        """
        with self._forward_context():
            if self._root is None:
                return step(*arguments)
            found = self._root(step, *arguments)
        # Nothing lets the outermost go without a backward, and what is gathered does not see what is loaded.
        self._let_go()
        return found

    def _forward_context(self) -> AbstractContextManager[Any]:
        if self._casts and self._roots:
            return nullcontext()
        return self.precision.forward_context(self.device.type)

    def _let_go(self) -> None:
        for root in self._roots:
            for part in root.modules():
                if isinstance(part, FSDPModule):
                    part.reshard()

    def no_sync(self) -> AbstractContextManager[Any]:
        """Return a context that does nothing: gradients that were not reduced would be whole on each rank."""
        return nullcontext()

    def combine_gradients(self, *, late: bool) -> None:  # noqa: ARG002 - nothing is left for later
        """Average those of parameters that stay whole; torch reduces the others within backward."""
        if self._whole:
            trained = [one for one in self._whole if one.requires_grad]
            average_gradients(trained, self.collectives, self.device)

    def clip_gradients(self, optimizer: torch.optim.Optimizer, clip_val: float, algorithm: str) -> None:
        """Clip in place, by the norm over all ranks' parts."""
        if self._roots:
            dtensors.clip(optimizer, clip_val, algorithm)
        else:
            clip_whole(optimizer, clip_val, algorithm)

    def check_gradients(self) -> None:
        """Ask for nothing: a parameter without gradient on any rank is left as it is."""

    def reduces_in(self, module: torch.nn.Module) -> tuple[torch.dtype, ...]:
        """Return the parameters' types; float32 where arithmetic is in a shorter one."""
        if self.ranks.world_size == 1:
            return ()
        if self.precision.computes_in is not None:
            return (torch.float32,)
        return tuple(dict.fromkeys(one.dtype for one in module.parameters() if one.requires_grad))

    def setup_optimizers(self, optimizers: Sequence[torch.optim.Optimizer]) -> None:
        """Let optimizers that were made before the module was sharded step on the parts."""
        self._optimizers += optimizers
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                group["params"] = [_PARTS.get(one, one) for one in group["params"]]
            for origin in [one for one in optimizer.state if one in _PARTS]:
                part, state = _PARTS[origin], optimizer.state.pop(origin)
                optimizer.state[part] = {
                    name: dtensors.part_like(value, part) if isinstance(value, torch.Tensor) else value
                    for name, value in state.items()
                }

    def model_state(self, module: torch.nn.Module) -> dict[str, Any]:
        """Return the module's state_dict with whole tensors, on rank 0; elsewhere its names."""
        state = module.state_dict()
        if not self._roots:
            return state
        found: dict[str, Any] = dtensors.whole_on_zero(dict(state), is_zero=self.ranks.is_zero)
        return found

    def load_model_state(self, module: torch.nn.Module, state: Mapping[str, Any]) -> None:
        """Load of each whole tensor this rank's part."""
        found = dtensors.parts_like(state, module.state_dict()) if self._roots else state
        module.load_state_dict(found, strict=getattr(module, "strict_loading", True))

    def optimizer_state(self, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
        """Return the whole state on rank 0, as the optimizer's own state_dict; elsewhere its names."""
        state = optimizer.state_dict()
        if not self._roots:
            return state
        found: dict[str, Any] = dtensors.whole_on_zero(state, is_zero=self.ranks.is_zero)
        return found

    def load_optimizer_state(self, optimizer: torch.optim.Optimizer, state: Mapping[str, Any]) -> None:
        """Load of each whole tensor this rank's part."""
        parameters = [one for group in optimizer.param_groups for one in group["params"]]
        optimizer.load_state_dict(dtensors.state_in_parts(state, parameters) if self._roots else dict(state))

    def whole(self, tensors: Sequence[torch.Tensor | None]) -> list[torch.Tensor | None]:
        """Return whole tensors on rank 0, one after the other."""
        if not self._roots:
            return super().whole(tensors)
        found = dtensors.whole_on_zero([*tensors], is_zero=self.ranks.is_zero)
        return [one if self.ranks.is_zero else None for one in found]

    def spread(self, part: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
        """Return the DTensor of which these are this rank's rows."""
        return dtensors.spread_like(part, like)

    def part(self, value: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
        """Return the rows that this rank has."""
        return dtensors.part_like(value, like) if is_in_parts(like) else value.to(like.device)

    def gather_optimizers(self, optimizers: Sequence[torch.optim.Optimizer]) -> None:
        """Bring the whole state to rank 0; the other ranks' optimizers have none then."""
        if not self._roots:
            return
        for optimizer in optimizers:
            for parameter, state in list(optimizer.state.items()):
                kept = dtensors.whole_on_zero(state, is_zero=self.ranks.is_zero)
                if self.ranks.is_zero:
                    optimizer.state[parameter] = kept
                else:
                    del optimizer.state[parameter]

    @torch.no_grad()
    def gather_model(self, module: torch.nn.Module) -> None:  # noqa: ARG002 - it is known who had what
        """Make the module whole on every rank, of the parameters that it had; optimizers have them again too.

        Collectives:
            an all_gather a parameter; every rank must call.
        """
        self._let_go()
        back: dict[torch.Tensor, torch.nn.Parameter] = {}
        for part, name, origin in self._origins:
            now = getattr(part, name)
            if now not in back:
                full = dtensors.whole(now.detach()).cpu()
                back[now] = torch.nn.Parameter(full) if origin.is_meta else origin
                back[now].data = full
                back[now].requires_grad_(now.requires_grad)
            part.register_parameter(name, back[now])
        for optimizer in self._optimizers:
            for group in optimizer.param_groups:
                group["params"] = [back.get(one, one) for one in group["params"]]
            for one in [one for one in optimizer.state if one in back]:
                optimizer.state[back[one]] = optimizer.state.pop(one)
        self._roots = []


@final
class _Root(torch.nn.Module):
    """A module that is sharded as a whole: before its forward, which runs a step, torch gathers it."""

    def __init__(self, module: torch.nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, step: Callable[..., Any], *arguments: Any) -> Any:
        """Run a step."""
        return step(*arguments)


def _owned(module: torch.nn.Module) -> Iterator[tuple[torch.nn.Module, str, torch.nn.Parameter]]:
    """Yield who has each parameter, under which name; one that is shared comes once for each."""
    for part in module.modules():
        for name, one in part._parameters.items():  # noqa: SLF001 - named_parameters leaves out what is shared
            if one is not None:
                yield part, name, one


def _callable_parts(module: torch.nn.Module) -> Iterator[torch.nn.Module]:
    """Yield the modules that a step calls: those right in the module, and those in its lists."""
    shared = {id(one) for one in module.parameters(recurse=False)}
    for child in module.children():
        if isinstance(child, (torch.nn.ModuleList, torch.nn.ModuleDict)):
            yield from _callable_parts(child)
        elif any(True for _ in child.parameters()) and not any(
            id(one) in shared for one in child.parameters()
        ):
            yield child


def _check(module: torch.nn.Module) -> None:
    for name, one in module.named_parameters():
        if is_in_parts(one):
            raise ModuleError(
                "strategy.left-in-parts",
                f"{name} of {type(module).__name__} is in parts, and the ranks that had the others are gone",
                values={"parameter": name},
                because="a run that fails cannot bring together what each rank has of the module",
                hint="make the module anew, and go on from a checkpoint: trainer.fit(..., ckpt_path='last')",
            )
        if is_lazy(one):
            raise ModuleError(
                "strategy.lazy-parameters",
                f"{name} of {type(module).__name__} has no shape yet",
                values={"parameter": name},
                because="a parameter is shared out over ranks before the first batch",
                hint="run the module once on an example before fit, or give the layer its sizes",
            )


def _no_units(module: torch.nn.Module) -> ModuleError:
    return ModuleError(
        "strategy.no-units",
        f"activation_checkpointing=True, and nothing in {type(module).__name__} is computed once more",
        values={"activation_checkpointing": True, "units": []},
        because="what is computed once more in backward are the units of the model, and none was found",
        hint="name their classes: strategy='fsdp(activation_checkpointing=true, wrap=\"Block\")'",
    )


def _no_short_format(precision: str) -> ModuleError:
    return ModuleError(
        "strategy.no-short-format",
        f"cast_parameters=True with precision {precision!r}",
        values={"cast_parameters": True, "precision": precision},
        because="parameters are gathered in the short format of a mixed precision, and this one has none",
        hint="pass precision='bf16-mixed', or leave cast_parameters out",
    )
