"""Strategy: one parallel algorithm at run time, with everything that it owns."""

from __future__ import annotations

import random
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, ClassVar, final

import torch

from drivetrain.accelerators.accelerator import Accelerator
from drivetrain.checkpoint_io.checkpoint_io import CheckpointIO, StrPath
from drivetrain.collectives.collectives import Collectives
from drivetrain.collectives.connect import connect, disconnect
from drivetrain.collectives.place import Place
from drivetrain.data.seeds import mix, seed_all
from drivetrain.precision.precision import Precision
from drivetrain.strategies.layer_sync import LayerSync
from drivetrain.strategies.making import made_on
from drivetrain.strategies.parts import is_in_parts


@dataclass(frozen=True)
class Parts:
    """What a strategy owns, as build.py makes it from a plan."""

    accelerator: Accelerator
    precision: Precision
    checkpoint_io: CheckpointIO
    place: Place
    device_id: int
    layout: Mapping[str, int]
    """Size of each mesh axis."""
    process_group_backend: str
    layer_sync: LayerSync | None = None
    """What makes layers see all ranks; None where each rank's see its own batch."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """What the user said to the strategy; torch's defaults hold for the rest."""


class Strategy(ABC):
    """How one model trains on the plan's ranks. Made for one run, on each rank.

    ``open`` and ``close`` pair, and inside of them ``setup`` and ``teardown``, once a module. What
    differs between algorithms is abstract; what does not is final and stands here.
    """

    is_whole_everywhere: ClassVar[bool] = False
    """Whether each rank by itself has the whole model and optimizer, and can save without asking others."""
    has_whole_model: ClassVar[bool] = False
    """Whether each rank by itself has the whole model, and can run it without asking others."""
    reduces_at_once: ClassVar[bool] = False
    """Whether gradients of a window that is still open are those of all ranks already."""
    keeps_ranks_alike: ClassVar[bool] = True
    """Whether the ranks' models are one model after each step, or parts of one."""
    allows_inference_mode: ClassVar[bool] = True
    """Whether verbs of evaluation may run under torch.inference_mode, and not only under torch.no_grad."""

    def __init__(self, parts: Parts) -> None:
        self.accelerator = parts.accelerator
        self.precision = parts.precision
        self.checkpoint_io = parts.checkpoint_io
        self.layout = parts.layout
        self.place = parts.place
        self.ranks = parts.place.ranks
        self.options = parts.options
        self.layer_sync = parts.layer_sync
        self._synced: list[torch.nn.Module] = []
        self.device = parts.accelerator.device(parts.device_id)
        self._backend = parts.process_group_backend
        self._collectives: Collectives | None = None
        self._has_seen_gradients = False

    @final
    @property
    def collectives(self) -> Collectives:
        """Communication over all ranks, between `open` and `close`."""
        assert self._collectives is not None, "the strategy is not open"  # noqa: S101 - our own bug
        return self._collectives

    @final
    def open(self) -> None:
        """Take the device and meet the other ranks.

        Collectives:
            every rank must call.
        """
        self.accelerator.setup(self.device)
        self.precision.setup(self.device)
        self._collectives = connect(self.place, self._backend, self.device)

    @final
    def close(self) -> None:
        """Leave the other ranks and release the device; also after a failure, which stays what is raised.

        Raises:
            CheckpointError: a checkpoint could not be written, and nobody was told yet.
        """
        failure = self._end_saving()
        if self._collectives is not None:
            disconnect(self._collectives)
            self._collectives = None
            self.accelerator.teardown(self.device)
        if failure is not None and sys.exc_info()[0] is None:
            raise failure
        if failure is not None:
            print(f"drivetrain: a checkpoint was not written: {failure}", file=sys.stderr)  # noqa: T201 - beside a failure

    def _end_saving(self) -> Exception | None:
        try:
            self.checkpoint_io.teardown()
        except Exception as error:  # noqa: BLE001 - the caller decides whether it is what is seen
            return error
        return None

    @abstractmethod
    def setup(
        self, module: torch.nn.Module, step: Callable[..., Any] | None, *, one_backward: bool = True
    ) -> None:
        """Bring the module to the device and format; make it ready to train with ``step`` if given.

        The module stays the user's object: its names, its hooks, its state_dict. ``one_backward`` is False
        when a step computes gradients several times, or of a part of the parameters: several optimizers.

        Collectives:
            every rank must call; parameters and buffers become those of rank 0.
        """

    @abstractmethod
    def teardown(self, module: torch.nn.Module) -> None:
        """Take off whatever `setup` put around the module, and bring it back to the CPU."""

    @abstractmethod
    def share_buffers(self, module: torch.nn.Module) -> None:
        """Make buffers that ranks may have changed apart, such as running statistics, those of rank 0.

        Collectives:
            one broadcast a buffer, where buffers may differ; every rank must call.
        """

    @abstractmethod
    def training_step(self, *arguments: Any) -> Any:
        """Run the module's training step so that backward will combine gradients over ranks."""

    @abstractmethod
    def no_sync(self) -> AbstractContextManager[Any]:
        """Return a context in which a step's gradients may stay this rank's own, as more will be added."""

    @abstractmethod
    def combine_gradients(self, *, late: bool) -> None:
        """Combine gradients over ranks after a backward, where that is not done within it.

        ``late``: those of `no_sync` too, as no other backward will follow.

        Collectives:
            as many all_reduces as the algorithm needs; every rank must call.
        """

    @abstractmethod
    def clip_gradients(self, optimizer: torch.optim.Optimizer, clip_val: float, algorithm: str) -> None:
        """Clip the gradients of an optimizer's parameters in place: by their joint ``norm``, or by ``value``.

        Units:
            clip_val: in the gradient's unit, after the loss scale is removed.
        Collectives:
            one all_reduce where gradients are sharded; every rank must call.
        """

    @abstractmethod
    def check_gradients(self) -> None:
        """Look, once, after the first backward, whether gradients came as this algorithm needs them.

        Raises:
            ModuleError [strategy.unused-parameters]: parameters that cannot be combined over ranks.
        """

    @abstractmethod
    def model_state(self, module: torch.nn.Module) -> dict[str, Any]:
        """Return the whole model's state, for the checkpoint.

        Collectives:
            every rank must call.
        """

    @abstractmethod
    def load_model_state(self, module: torch.nn.Module, state: Mapping[str, Any]) -> None:
        """Load what `model_state` returned, at any world size."""

    def setup_optimizers(self, optimizers: Sequence[torch.optim.Optimizer]) -> None:  # noqa: B027 - for those that need it
        """Make the user's optimizers step as the algorithm needs; after `setup`, before their first step.

        Collectives:
            every rank must call.
        """

    def own_part(
        self,
        optimizer: torch.optim.Optimizer,  # noqa: ARG002 - as above
    ) -> AbstractContextManager[None]:
        """Return a context in which the optimizer's groups have what it steps on here, on this rank."""
        return nullcontext()

    def gather_optimizers(self, optimizers: Sequence[torch.optim.Optimizer]) -> None:  # noqa: B027 - as above
        """Bring what ranks hold of the optimizers to rank 0, at the end of a run: nobody can be asked later.

        Collectives:
            every rank must call.
        """

    def gather_model(self, module: torch.nn.Module) -> None:  # noqa: B027 - as above
        """Make the module whole, at the end of a run: nobody can be asked later.

        Collectives:
            every rank must call.
        """

    def whole(self, tensors: Sequence[torch.Tensor | None]) -> list[torch.Tensor | None]:
        """Return tensors as they are without ranks, on the CPU; of parts on rank 0, and elsewhere None.

        Collectives:
            every rank must call, with the same tensors.
        """
        return [None if one is None else one.cpu() for one in tensors]

    def spread(self, part: torch.Tensor, like: torch.Tensor) -> torch.Tensor:  # noqa: ARG002 - for those that do
        """Return the tensor of which this is a rank's part, in parts as ``like`` is; a whole one itself."""
        return part

    def part(self, value: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
        """Return of a whole tensor what this rank has of it, as it has of ``like``, on the same device."""
        return value.to(like.device)

    @abstractmethod
    def optimizer_state(self, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
        """Return the whole optimizer's state, for the checkpoint, on rank 0; elsewhere what there is.

        Collectives:
            every rank must call.
        """

    @abstractmethod
    def load_optimizer_state(self, optimizer: torch.optim.Optimizer, state: Mapping[str, Any]) -> None:
        """Load what `optimizer_state` returned, at any world size."""

    def joint(
        self,
        module: torch.nn.Module,  # noqa: ARG002 - for those whose ranks train apart
    ) -> AbstractContextManager[None]:
        """Return a context in which the module is that of all ranks: to evaluate, and to save it.

        Collectives:
            where ranks train apart, one all_reduce for each type of parameters; every rank must call.
        """
        return nullcontext()

    def rank_state(self, module: torch.nn.Module) -> dict[str, Any]:  # noqa: ARG002 - as above
        """Return what this rank alone has of the run, beside random numbers; plain values and tensors."""
        return {}

    def load_rank_state(  # noqa: B027 - as above
        self,
        module: torch.nn.Module,
        of_ranks: Sequence[Mapping[str, Any]],
        optimizer_steps: int,
    ) -> None:
        """Take up what each rank's `rank_state` returned, at any world size; after the optimizers' states.

        ``of_ranks`` is empty where the file is another strategy's, which took so many ``optimizer_steps``.
        """

    @final
    def takes_rank_states(self, num_ranks: int) -> bool:
        """Whether so many ranks, that had trained apart, go on here each from its own state."""
        return not self.keeps_ranks_alike and num_ranks == self.ranks.world_size

    def bytes_beside(self, module: torch.nn.Module) -> int:  # noqa: ARG002 - for those that need some
        """Return what training the module on several ranks takes of each device, beside what one rank takes.

        Units:
            returns: bytes.
        """
        return 0

    @final
    def making(
        self, *, empty: bool | None = None, device: torch.device | None = None
    ) -> AbstractContextManager[None]:
        """Return a context in which new modules and tensors are made as they will train: see `made_on`."""
        return made_on(device or self.device, self.precision.made_in, self.layout, empty=empty)

    def evaluation_step(self, step: Callable[..., Any], *arguments: Any) -> Any:
        """Run a step that needs no gradients; where each rank has the whole model, as often as it likes."""
        apart = nullcontext() if self.layer_sync is None else self.layer_sync.paused()
        with apart, self.precision.forward_context(self.device.type):
            return step(*arguments)

    @final
    def batch_to_device(self, batch: Any) -> Any:
        """Convert a batch's floating tensors to the precision's format and move it to the device."""
        return self.accelerator.move(self.precision.convert_input(batch), self.device)

    @final
    def backward(self, loss: torch.Tensor, run: Callable[[torch.Tensor], Any] | None = None) -> None:
        """Compute gradients; with several ranks, of the mean of their losses. ``run`` replaces backward."""
        (run or torch.autograd.backward)(self.precision.scale_loss(loss))
        self.combine_gradients(late=False)
        if not self._has_seen_gradients:
            self._has_seen_gradients = True
            self.check_gradients()

    @final
    def unscale(self, optimizer: torch.optim.Optimizer) -> bool:
        """Give gradients their true size; False when the step must be left out, as they overflowed.

        Gradients were combined over ranks before, so that what overflowed on one did on all.
        """
        return self.precision.unscale(optimizer)

    @final
    def rescale(self) -> None:
        """Choose the scale of the next loss, after every optimizer of a step was asked to step."""
        self.precision.rescale()

    def reduces_in(self, module: torch.nn.Module) -> tuple[torch.dtype, ...]:  # noqa: ARG002 - for those that do
        """Return the types in which gradients are combined over ranks; none where they are not."""
        return ()

    @final
    def optimizers_to_device(self, optimizers: Sequence[torch.optim.Optimizer], device: torch.device) -> None:
        """Move the optimizers' states; step counters that torch keeps on the CPU stay there."""
        for optimizer in optimizers:
            for state in optimizer.state.values():
                for name, value in state.items():
                    is_alone = isinstance(value, torch.Tensor) and value.dim() and not is_in_parts(value)
                    if is_alone and value.device != device:
                        state[name] = value.to(device)

    @final
    def sync_layers(self, module: torch.nn.Module) -> None:
        """Let layers see all ranks' batches in training, where that was asked for."""
        if self.layer_sync is not None:
            self.layer_sync.collectives = self.collectives
            self.layer_sync.apply(module)
            self._synced.append(module)

    @final
    def unsync_layers(self, module: torch.nn.Module) -> None:
        """Take back what `sync_layers` did, if it did."""
        if self.layer_sync is not None and any(one is module for one in self._synced):
            self._synced = [one for one in self._synced if one is not module]
            self.layer_sync.revert(module)

    @final
    def save(self, checkpoint: dict[str, Any], path: StrPath) -> None:
        """Write the checkpoint on rank 0; every rank returns when it is there or taken over, or raises.

        Collectives:
            one object of a few bytes; every rank must call.
        """
        self._on_zero(lambda: self.checkpoint_io.save(checkpoint, path))

    @final
    def finish_saving(self) -> None:
        """Return on every rank when all that was saved is there, or raise what could not be written.

        Collectives:
            one object of a few bytes; every rank must call.
        """
        self._on_zero(self.checkpoint_io.teardown)

    def _on_zero(self, call: Callable[[], None]) -> None:
        failure: BaseException | None = None
        if self.ranks.is_zero:
            try:
                call()
            except Exception as error:  # noqa: BLE001 - reaches every rank, then raised on each
                failure = error
        if self.ranks.world_size > 1:
            failure = self.collectives.broadcast_object(failure)
        if failure is not None:
            raise failure

    @final
    def spread_rng(self) -> None:
        """Give each rank but 0 random numbers of its own, that follow from rank 0's; rank 0 keeps its own.

        Collectives:
            one object of a few bytes; every rank must call.
        """
        if self.ranks.world_size == 1:
            return
        state = torch.default_generator.get_state()
        first = self.collectives.broadcast_object(mix(*state.tolist()))
        if not self.ranks.is_zero:
            seed_all(mix(first, self.ranks.rank))

    @final
    def rng_state(self) -> dict[str, Any]:
        """Return this rank's random state: python, torch, the device, numpy where it is imported."""
        version, words, gauss = random.getstate()
        state: dict[str, Any] = {
            "python": [version, list(words), gauss],
            "torch": torch.default_generator.get_state(),
            "device": self.accelerator.rng_state(self.device),
        }
        numpy = sys.modules.get("numpy")
        if numpy is not None:
            name, keys, *rest = numpy.random.get_state()
            state["numpy"] = [
                str(name),
                torch.tensor(keys.tolist()),
                *(float(x) if isinstance(x, float) else int(x) for x in rest),
            ]
        return state

    @final
    def set_rng_state(self, state: Mapping[str, Any]) -> None:
        """Set what `rng_state` returned."""
        version, words, gauss = state["python"]
        random.setstate((version, tuple(words), gauss))
        torch.default_generator.set_state(state["torch"])
        if state.get("device") is not None:
            self.accelerator.set_rng_state(self.device, state["device"])
        numpy = sys.modules.get("numpy")
        if numpy is not None and "numpy" in state:
            name, keys, *rest = state["numpy"]
            numpy.random.set_state((name, keys.numpy().astype("uint32"), *rest))
