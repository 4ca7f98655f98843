"""Engine: the run-time without a loop."""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, TypeVar

import torch

from drivetrain.base.errors import CollectiveError, EngineError
from drivetrain.base.origin import AUTO, OFF, ONE
from drivetrain.base.tree import leaves, map_leaves
from drivetrain.build import build_launcher, build_strategy, check, ranks_here
from drivetrain.checkpoint_io.entry import Entry
from drivetrain.collectives.alike import check_alike
from drivetrain.collectives.place import Place
from drivetrain.data import Slice, counted, make_feed
from drivetrain.data.seeds import seed_everything
from drivetrain.engine.loader import EngineLoader
from drivetrain.engine.module import EngineModule
from drivetrain.engine.states import check_names, packed, unpacked
from drivetrain.launchers.launcher import LOADED_BY_OPTIMIZERS
from drivetrain.loops.optimization import Clipping
from drivetrain.modules.run import Logs
from drivetrain.resolver.front import plan_for
from drivetrain.resolver.plan import Plan
from drivetrain.resolver.ranks import Ranks
from drivetrain.strategies.own_steps import OwnSteps
from drivetrain.strategies.strategy import Strategy

T = TypeVar("T")
_SCALER = "loss_scaler"
"""The entry of a checkpoint that has the scale of the loss, in a format that scales it."""


class Engine:
    """Everything of a run but the loop: ``dt.Engine(devices=4, strategy="ddp").launch(main)``.

    The flags are those of `drivetrain.plan`. ``launch`` calls ``main(engine, ...)`` on every rank; this
    process is rank 0, keeps its objects and gets the result. Inside, `setup` and `setup_dataloaders` make
    a module, its optimizers and loaders ready; the loop is yours, with `backward` in the place of
    ``loss.backward()``. With one rank, and where ranks were started by torchrun or a cluster, everything
    works without ``launch`` too.

    ``loggers`` get what `log` is given, on rank 0; ``callbacks`` are any objects, whose methods `call` calls.

    Raises:
        PlanError: the flags describe no run.
    """

    def __init__(
        self,
        *,
        accelerator: Any = AUTO,
        devices: Any = AUTO,
        num_nodes: Any = ONE,
        strategy: Any = AUTO,
        launcher: Any = AUTO,
        environment: Any = AUTO,
        precision: Any = None,
        plugins: Any = None,
        sync_batchnorm: Any = OFF,
        callbacks: Any = None,
        loggers: Any = None,
        seed: int = 0,
    ) -> None:
        flags = {
            "accelerator": accelerator,
            "devices": devices,
            "num_nodes": num_nodes,
            "strategy": strategy,
            "launcher": launcher,
            "environment": environment,
            "precision": precision,
            "plugins": plugins,
            "sync_batchnorm": sync_batchnorm,
        }
        self._resolution = plan_for(flags, caller="Engine")
        self.callbacks: list[Any] = _as_list(callbacks)
        """Objects whose methods `call` calls."""
        self.loggers: list[Logs] = _as_list(loggers)
        """Where `log` writes."""
        self._seed = seed
        self._strategy: Strategy | None = None
        self._ready: list[EngineModule] = []
        self._loaders: list[EngineLoader] = []
        self._own: OwnSteps | None = None
        self._handles: list[Any] = []

    def launch(self, function: Callable[..., T], *arguments: Any, **named: Any) -> T:
        """Call ``function(engine, ...)`` on every rank and return this process's result.

        No process is left afterwards, and it may be called again.

        Raises:
            BuildError: this release or installation cannot run the plan.
            RankFailure: another rank failed first.
            LaunchError: ranks could not be started.
        """
        found = self._resolution
        check(found.plan, found.catalogue, found.objects)
        launcher = build_launcher(found.plan, found.catalogue, found.objects)

        def on_rank(place: Place) -> T:
            self._open(place)
            try:
                result = function(self, *arguments, **named)
                for ready in self._ready:
                    ready.gather()
                return result
            finally:
                self._close()

        launcher.ahead = LOADED_BY_OPTIMIZERS
        return launcher.launch(found.plan, on_rank)

    def _open(self, place: Place) -> None:
        self._strategy = self._made(place)
        self._strategy.open()
        self._own = OwnSteps(self._strategy)
        self._strategy.spread_rng()

    def _made(self, place: Place) -> Strategy:
        found = self._resolution
        return build_strategy(found.plan, found.catalogue, found.objects, place)

    def _close(self) -> None:
        for handle in self._handles:
            handle.remove()
        for loader in self._loaders:
            loader.close()
        for ready in self._ready:
            ready.release()
        if self._strategy is not None:
            self._strategy.close()
        self._strategy, self._ready, self._loaders, self._own, self._handles = None, [], [], None, []

    def __getstate__(self) -> dict[str, Any]:
        """Travel to another rank without what belongs to this one."""
        return {
            **self.__dict__,
            "_strategy": None,
            "_ready": [],
            "_loaders": [],
            "_own": None,
            "_handles": [],
        }

    @property
    def strategy(self) -> Strategy:
        """The run-time strategy of this rank.

        Raises:
            EngineError [engine.not-launched]: the plan has other ranks, and they do not run.
        """
        if self._strategy is None:
            is_external = self.plan.launcher == "external"
            if self.plan.world_size > 1 and not is_external:
                each = self.plan.world_size // self.plan.num_nodes
                raise EngineError(
                    "engine.not-launched",
                    f"the engine has {self.plan.world_size} ranks, and none is running",
                    values={"world_size": self.plan.world_size, "launcher": self.plan.launcher},
                    because="the other ranks run inside of launch",
                    hint="put the loop into a function main(engine) and call engine.launch(main); or leave "
                    f"the script as it is, and start it with: torchrun --nproc-per-node={each} <script>",
                )
            found = self._resolution
            check(found.plan, found.catalogue, found.objects)
            launcher: Any = build_launcher(found.plan, found.catalogue, found.objects)
            self._open(launcher.place(found.plan) if is_external else Place(Ranks()))
            atexit.register(self._close)
        assert self._strategy is not None  # noqa: S101 - opened above
        return self._strategy

    @property
    def plan(self) -> Plan:
        """What was decided, and why."""
        return self._resolution.plan

    @property
    def _ranks(self) -> Ranks:
        if self._strategy is not None:
            return self._strategy.ranks
        return ranks_here(self.plan, self._resolution.catalogue, self._resolution.objects)

    @property
    def device(self) -> torch.device:
        """This rank's device."""
        return self.strategy.device

    @property
    def accelerator(self) -> Any:
        """The run-time object of the hardware."""
        return self.strategy.accelerator

    @property
    def world_size(self) -> int:
        """Number of ranks."""
        return self.plan.world_size

    @property
    def global_rank(self) -> int:
        """This process's rank."""
        return self._ranks.rank

    @property
    def local_rank(self) -> int:
        """This process's rank on its machine."""
        return self._ranks.local_rank

    @property
    def node_rank(self) -> int:
        """This process's machine's number."""
        return self._ranks.node_rank

    @property
    def is_global_zero(self) -> bool:
        """Whether this process speaks and writes for all."""
        return self._ranks.is_zero

    @property
    def logger(self) -> Logs | None:
        """The first logger, or None."""
        return self.loggers[0] if self.loggers else None

    def setup(self, module: torch.nn.Module, *optimizers: torch.optim.Optimizer) -> Any:
        """Make a module ready, with the optimizers of its parameters; return it, or a tuple with them.

        The module is moved to the device first, and stays the one whose parameters the optimizers have.

        Collectives:
            parameters become those of rank 0; every rank must call.
        """
        strategy = self.strategy
        if self._ready:  # each module has a strategy of its own, over the same process group
            strategy = self._made(strategy.place)
            strategy.open()
        ready = EngineModule(module, strategy)
        self._ready.append(ready)
        # The first module's strategy has all optimizers, and with them the states that are saved.
        self._watch(optimizers)  # first: what overflowed is looked for among all parameters, not a rank's own
        self.strategy.setup_optimizers(optimizers)
        strategy.optimizers_to_device(optimizers, strategy.device)
        return (ready, *optimizers) if optimizers else ready

    def setup_module(self, module: torch.nn.Module) -> EngineModule:
        """Make a module ready, without optimizers."""
        ready: EngineModule = self.setup(module)
        return ready

    def setup_optimizers(self, *optimizers: torch.optim.Optimizer) -> Any:
        """Make optimizers ready whose module was set up before; return it, or a tuple of several."""
        self._watch(optimizers)
        self.strategy.setup_optimizers(optimizers)
        self.strategy.optimizers_to_device(optimizers, self.device)
        return optimizers[0] if len(optimizers) == 1 else optimizers

    def _watch(self, optimizers: Iterable[torch.optim.Optimizer]) -> None:
        """See to it that they step with gradients of their true size."""
        assert self._own is not None  # noqa: S101 - made with the strategy
        if self.strategy.precision.scales_loss:
            for one in optimizers:
                self._handles += self._own.watch(one)

    def _settle(self) -> None:
        if self._own is not None:
            self._own.settle()

    def setup_dataloaders(
        self,
        *dataloaders: Any,
        evaluation: bool = False,
        use_distributed_sampler: bool = True,
        move_to_device: bool = True,
    ) -> Any:
        """Return loaders that give this rank's batches; one, or a list of several.

        Write them as for one device: batches are shared out in one global order, that of `Trainer`. With
        ``use_distributed_sampler=False`` each rank reads its loader whole. See `EngineLoader`.
        """
        strategy = self.strategy
        ranks = strategy.ranks
        place = Slice(ranks.rank, ranks.world_size) if use_distributed_sampler else Slice()
        move = strategy.batch_to_device if move_to_device else _same

        def gather(mine: int) -> list[int]:
            told = torch.tensor([mine], device=strategy.device)
            return [int(size) for size in strategy.collectives.all_gather(told)]

        made = [
            EngineLoader(
                counted(make_feed(one, "the loader", "limit", 1.0, self._seed, *place), place, gather),
                move,
                place.world_size,
                strategy if evaluation else None,
            )
            for one in dataloaders
        ]
        self._loaders += made
        return made[0] if len(made) == 1 else made

    def backward(self, loss: torch.Tensor, *, weight: float | None = None, **options: Any) -> None:
        """Compute gradients, of the mean of all ranks' losses; ``16-mixed`` scales them until a step.

        ``weight`` is what this rank's loss counts; by default that of the loader that is being read: 1, but
        in a last step that does not come out even. ``options`` go to Tensor.backward.

        Raises:
            EngineError [engine.weights]: several loaders are being read, and their batches count differently.
        """
        if weight is None:
            weights = {loader.weight for loader in self._loaders if loader.is_reading} or {1.0}
            if len(weights) > 1:
                raise _which_weight(sorted(weights))
            weight = weights.pop()
        loss = loss if weight == 1.0 else loss * weight
        self._settle()
        scaled: Any = self.strategy.precision.scale_loss(loss)
        scaled.backward(**options)
        for ready in self._ready:
            ready.after_backward()

    def no_backward_sync(self, module: EngineModule, enabled: bool = True) -> AbstractContextManager[Any]:
        """Return a context for all but the last forward and backward of an accumulation."""
        return module._strategy.no_sync() if enabled else nullcontext()

    def clip_gradients(
        self,
        module: torch.nn.Module,  # noqa: ARG002 - known from elsewhere; the optimizer has the parameters
        optimizer: torch.optim.Optimizer,
        clip_val: float | None = None,
        max_norm: float | None = None,
    ) -> None:
        """Clip the gradients of an optimizer's parameters in place: each to ``clip_val``, or by joint norm.

        Raises:
            EngineError [engine.clip-value]: none or both are given.
            TrainerError [trainer.bad-argument]: not a number above 0.
        """
        if (clip_val is None) == (max_norm is None):
            raise EngineError(
                "engine.clip-value",
                f"clip_gradients(clip_val={clip_val!r}, max_norm={max_norm!r})",
                values={"clip_val": clip_val, "max_norm": max_norm},
                because="gradients are clipped by value or by norm",
                hint="pass max_norm=1.0",
            )
        wanted = Clipping.read(
            clip_val if max_norm is None else max_norm, "value" if max_norm is None else "norm"
        )
        # Gradients that overflowed will not be stepped with, and stay what they are.
        if wanted.val is not None and self.strategy.unscale(optimizer):
            self.strategy.clip_gradients(optimizer, wanted.val, wanted.algorithm)

    def autocast(self) -> AbstractContextManager[Any]:
        """Return the precision's context, for what is computed outside of a module that was set up."""
        return self.strategy.precision.forward_context(self.device.type)

    def to_device(self, value: Any) -> Any:
        """Move a module, tensor or nested container to this rank's device."""
        if isinstance(value, torch.nn.Module):
            return value.to(self.device)
        return self.strategy.accelerator.move(value, self.device)

    def init_tensor(self) -> AbstractContextManager[None]:
        """Return a context in which new tensors are made on this rank's device, in the precision's format."""
        return self.strategy.making(empty=False)

    def init_module(self, empty_init: bool | None = None) -> AbstractContextManager[None]:
        """Return a context in which new modules are made on this rank's device, in the precision's format.

        With ``empty_init`` nothing fills the parameters, which are to be loaded. Where the strategy shards
        them they take no memory before `setup`, unless it is False.
        """
        return self.strategy.making(empty=empty_init)

    def sharded_model(self) -> AbstractContextManager[None]:
        """Return a context for strategies that make modules in shards; with the others it does nothing."""
        return nullcontext()

    def print(self, *values: Any, **options: Any) -> None:
        """Print on rank 0 only, with the options of Python's own."""
        if self.is_global_zero:
            print(*values, **options)  # noqa: T201 - what it is for

    def barrier(self) -> None:
        """Return when every rank has called."""
        self.strategy.collectives.barrier()

    def broadcast(self, value: T, src: int = 0) -> T:
        """Return rank ``src``'s object on every rank; every rank must call."""
        return self.strategy.collectives.broadcast_object(value, src)

    def all_gather(self, data: Any) -> Any:
        """Return every rank's tensors, stacked in a new first dimension; nested containers keep their form.

        Shapes:
            data: tensors of any one shape, the same on each rank; numbers become tensors.
            returns: [world_size, *shape].
        Collectives:
            one all_gather a tensor, and an all_reduce of 16 bytes; every rank must call.
        Raises:
            CollectiveError [collectives.shapes]: the ranks' tensors differ in number, shape or type.
        """
        tensors = map_leaves(data, self._tensor)
        found = [leaf for _, leaf in leaves(tensors) if isinstance(leaf, torch.Tensor)]
        check_alike(found, self.strategy.collectives, self.device)
        return map_leaves(tensors, lambda leaf: torch.stack(self.strategy.collectives.all_gather(leaf)))

    def all_reduce(self, data: Any, reduce_op: str = "mean") -> Any:
        """Return the combination of every rank's tensors: ``mean``, ``sum``, ``min`` or ``max``.

        Collectives:
            one all_reduce a tensor, and one of 16 bytes; every rank must call.
        Raises:
            CollectiveError [collectives.shapes]: the ranks' tensors differ in number, shape or type.
        """
        collectives, tensors = self.strategy.collectives, map_leaves(data, self._tensor)
        found = [leaf for _, leaf in leaves(tensors) if isinstance(leaf, torch.Tensor)]
        check_alike(found, collectives, self.device, "all_reduce")
        return map_leaves(tensors, lambda leaf: collectives.all_reduce(leaf.clone(), reduce_op))  # type: ignore[arg-type]  # all_reduce checks the name of the operation

    def _tensor(self, leaf: Any) -> torch.Tensor:
        try:
            return torch.as_tensor(leaf, device=self.device).detach()
        except (TypeError, ValueError, RuntimeError):
            raise CollectiveError(
                "collectives.shapes",
                f"ranks cannot put a {type(leaf).__name__} together",
                values={"value": leaf},
                because="what is gathered and reduced are tensors and numbers",
                hint="send objects: engine.strategy.collectives.all_gather_object(value)",
            ) from None

    @contextmanager
    def rank_zero_first(self, local: bool = False) -> Iterator[None]:
        """Run a block on rank 0 (with ``local``, on each machine's first rank) before the others run it."""
        is_first = self._ranks.local_rank == 0 if local else self._ranks.is_zero
        if not is_first:
            self.barrier()
        yield
        if is_first:
            self.barrier()

    def call(self, hook_name: str, *arguments: Any, **named: Any) -> None:
        """Call the method of this name of every callback that has it."""
        for callback in self.callbacks:
            method = getattr(callback, hook_name, None)
            if callable(method):
                method(*arguments, **named)

    def log(self, name: str, value: Any, step: int | None = None) -> None:
        """Give one value to the loggers, on rank 0."""
        self.log_dict({name: value}, step)

    def log_dict(self, metrics: Mapping[str, Any], step: int | None = None) -> None:
        """Give values to the loggers, on rank 0."""
        if self.is_global_zero:
            plain = {name: float(value) for name, value in metrics.items()}
            for logger in self.loggers:
                logger.log_metrics(plain, step)

    def save(self, path: str | os.PathLike[str], state: Mapping[str, Any]) -> None:
        """Write a checkpoint, whole or not at all: modules, optimizers and loaders by their states.

        Every rank's random state goes with it, and the scale of the loss, so that `load` goes on exactly.

        Collectives:
            a gather of the random states, and those of the strategy; every rank must call.
        """
        strategy = self.strategy
        rng = strategy.collectives.gather_object(strategy.rng_state())
        self._settle()
        scaler = strategy.precision.state_dict()
        beside = {_SCALER: scaler} if scaler else {}
        strategy.save({**beside, **packed(dict(state), strategy), "rng": rng}, path)

    def load(
        self, path: str | os.PathLike[str], state: Mapping[str, Any], strict: bool = True
    ) -> dict[str, Any]:
        """Load a checkpoint into the objects of ``state``; return it, with what the file has beside them.

        What has no state of its own (numbers, texts) is in the returned dict.

        Raises:
            CheckpointError [checkpoint.mismatch]: the file lacks an entry, and ``strict`` is True.
        """
        strategy = self.strategy
        found = dict(strategy.checkpoint_io.load(path))
        if strict:
            check_names(state, found, path)
        rng = found.pop("rng", None) or []
        scaler = {} if _SCALER in state else found.pop(_SCALER, {})
        with Entry(scaler, path, _SCALER).reading():
            strategy.precision.load_state_dict(scaler)
        loaded = {
            name: unpacked(value, found[name], strategy, strict) if name in found else value
            for name, value in state.items()
        }
        if strategy.ranks.rank < len(rng):
            strategy.set_rng_state(rng[strategy.ranks.rank])
        return {**found, **loaded}

    def load_raw(
        self, path: str | os.PathLike[str], obj: torch.nn.Module | torch.optim.Optimizer, strict: bool = True
    ) -> None:
        """Load a bare state_dict, as ``torch.save(model.state_dict(), path)`` writes it, into an object."""
        found = self.strategy.checkpoint_io.load(path)
        if isinstance(obj, EngineModule):
            obj = obj.module
        if isinstance(obj, torch.nn.Module):
            obj.load_state_dict(found, strict=strict)
        else:
            obj.load_state_dict(dict(found))

    @staticmethod
    def seed_everything(seed: int, workers: bool = True) -> int:  # noqa: ARG004 - workers always follow from the seed
        """Seed python's, torch's and numpy's generators; return the seed."""
        return seed_everything(seed)


def _as_list(given: Any) -> list[Any]:
    if given is None:
        return []
    return list(given) if isinstance(given, Iterable) and isinstance(given, Sequence) else [given]


def _which_weight(weights: Sequence[float]) -> EngineError:
    return EngineError(
        "engine.weights",
        "backward of a step whose loaders have batches that count differently",
        values={"weights": list(weights)},
        because="a last step does not come out even over the ranks, and nobody has said whose samples the "
        "loss is a mean over",
        hint="pass weight=loader.weight of the loader that the loss belongs to, or a backward for each",
    )


def _same(batch: Any) -> Any:
    return batch
