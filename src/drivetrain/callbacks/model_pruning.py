"""ModelPruning: sets the least important weights to zero as the fit goes on."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from typing import Any, TypeAlias

import torch
from torch.nn.utils import prune

from drivetrain.base.errors import ModuleError
from drivetrain.base.text import listed, nearest
from drivetrain.callbacks.callback import Callback
from drivetrain.callbacks.pruned import Place, in_order, plain_state, pruned_places, settle
from drivetrain.callbacks.ranks_apart import refuse_apart
from drivetrain.callbacks.refusal import bad_argument, check_flag
from drivetrain.callbacks.say import say
from drivetrain.modules import Module, Run

Amount: TypeAlias = "int | float"
"""A number of entries, or the part from 0.0 to 1.0 of those that are not pruned yet."""

_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "ln_structured": prune.ln_structured,
    "l1_unstructured": prune.l1_unstructured,
    "random_structured": prune.random_structured,
    "random_unstructured": prune.random_unstructured,
}
_METHODS: dict[str, type[prune.BasePruningMethod]] = {
    "ln_structured": prune.LnStructured,
    "l1_unstructured": prune.L1Unstructured,
    "random_structured": prune.RandomStructured,
    "random_unstructured": prune.RandomUnstructured,
}
_CONTAINERS = (Module, torch.nn.Sequential, torch.nn.ModuleList, torch.nn.ModuleDict)
_LOUDEST = 2


class ModelPruning(Callback):
    """Prune with `torch.nn.utils.prune` at each epoch's end: ``ModelPruning("l1_unstructured", amount=0.2)``.

    ``pruning_fn`` is ``l1_unstructured``, ``random_unstructured``, ``ln_structured``, ``random_structured``
    (the last two need ``pruning_dim``, and ln a ``pruning_norm``), a BasePruningMethod class, or a function
    of ``(module, name, amount)``. Unstructured methods look at all parameters together, unless
    ``use_global_unstructured=False``; the others at each by itself. ``parameters_to_prune`` are pairs of
    a module and a parameter's name; by default each ``parameter_names`` (``weight``, ``bias``) of each layer.

    ``amount`` is of those that are left: a part, a number, or a function of the epoch. ``apply_pruning`` and
    ``use_lottery_ticket_hypothesis`` are switches, or functions of the epoch; the latter gives what is left
    the values that the fit began with (``resample_parameters``: new ones). ``verbose=1`` prints how much is
    pruned, 2 each layer too. With ``prune_on_train_epoch_end=False`` it is done after validations instead.

    Checkpoints hold plain weights, with zeros; the masks are beside them, and a resumed run goes on with
    them. The fit's end leaves plain weights in the module, unless ``make_pruning_permanent=False``. All ranks
    have rank 0's masks.

    Collectives:
        with several ranks, one broadcast a mask each time; every rank must call.
    Raises:
        ModuleError [callback.bad-argument]: an argument has a value that it cannot have.
    """

    PARAMETER_NAMES = ("weight", "bias")
    decides = True  # masks come after what averages weights has stored and exchanged them

    def __init__(  # noqa: PLR0917 - the order that users of such callbacks know
        self,
        pruning_fn: str | type[prune.BasePruningMethod] | Callable[..., Any],
        parameters_to_prune: Sequence[tuple[torch.nn.Module, str]] = (),
        parameter_names: list[str] | None = None,
        use_global_unstructured: bool = True,
        amount: Amount | Callable[[int], Amount] = 0.5,
        apply_pruning: bool | Callable[[int], bool] = True,
        make_pruning_permanent: bool = True,
        use_lottery_ticket_hypothesis: bool | Callable[[int], bool] = True,
        resample_parameters: bool = False,
        pruning_dim: int | None = None,
        pruning_norm: int | None = None,
        verbose: int = 0,
        prune_on_train_epoch_end: bool = True,
    ) -> None:
        self._is_global = check_flag(self, "use_global_unstructured", use_global_unstructured)
        self._wanted = [Place(*_pair(self, pair)) for pair in parameters_to_prune or ()]
        self._names = tuple(parameter_names or self.PARAMETER_NAMES)
        for name in self._names:
            if name not in self.PARAMETER_NAMES:
                raise bad_argument(self, "parameter_names", name, f"some of {listed(self.PARAMETER_NAMES)}")
        self._options: dict[str, Any] = {}
        self.pruning_fn = self._read_function(pruning_fn, pruning_dim, pruning_norm)
        self.amount = _amount(self, amount)
        self._apply = _choice(self, "apply_pruning", apply_pruning)
        self._lottery = _choice(self, "use_lottery_ticket_hypothesis", use_lottery_ticket_hypothesis)
        self._is_permanent = check_flag(self, "make_pruning_permanent", make_pruning_permanent)
        self._resamples = check_flag(self, "resample_parameters", resample_parameters)
        self._at_epoch_end = check_flag(self, "prune_on_train_epoch_end", prune_on_train_epoch_end)
        if type(verbose) is not int or not 0 <= verbose <= _LOUDEST:
            raise bad_argument(self, "verbose", verbose, "0, 1 or 2")
        self._verbose = verbose
        self._forget()

    def _read_function(self, function: Any, dim: int | None, norm: int | None) -> Any:
        """Return what prunes: a method's class where all parameters are looked at together."""
        if isinstance(function, str):
            if function not in _FUNCTIONS:
                close = nearest(function, [*_FUNCTIONS])
                hint = f"did you mean {close!r}?" if close else ""
                raise bad_argument(self, "pruning_fn", function, f"one of {listed([*_FUNCTIONS])}", hint)
            if function.endswith("_structured"):
                if dim is None:
                    raise bad_argument(
                        self, "pruning_dim", dim, f"an int for {function}", "pass pruning_dim=0"
                    )
                self._options["dim"] = dim
            if function == "ln_structured":
                if norm is None:
                    raise bad_argument(self, "pruning_norm", norm, "an int for ln_structured", "pass 1")
                self._options["n"] = norm
            function = _METHODS[function] if self._is_global else _FUNCTIONS[function]
        is_method = inspect.isclass(function) and issubclass(function, prune.BasePruningMethod)
        if not is_method and (inspect.isclass(function) or not callable(function)):
            raise bad_argument(
                self, "pruning_fn", function, "a name, a BasePruningMethod class or a function"
            )
        if self._is_global and getattr(function, "PRUNING_TYPE", None) != "unstructured":
            raise bad_argument(
                self,
                "pruning_fn",
                function,
                "unstructured where all parameters are looked at together",
                "pass use_global_unstructured=False",
            )
        return function

    def _forget(self) -> None:
        self._places: list[Place] = []
        self._paths: list[str] = []
        self._originals: list[torch.Tensor] = []
        self._blanks: dict[int, torch.nn.Module] = {}
        self._masks: dict[str, torch.Tensor] = {}
        """The masks of a fit that is over and has made its weights plain."""
        self._loaded: Mapping[str, Any] = {}
        self._is_fitting = False

    def filter_parameters_to_prune(
        self, parameters_to_prune: Sequence[tuple[torch.nn.Module, str]] = ()
    ) -> Sequence[tuple[torch.nn.Module, str]]:
        """Return those that are to be pruned; to be overridden."""
        return parameters_to_prune

    def apply_pruning(self, amount: Amount) -> None:
        """Prune this much of what is left."""
        for place in self._places:
            place.refresh()
        with in_order(self._places):
            if self._is_global:
                prune.global_unstructured(self._places, self.pruning_fn, **self._options, amount=amount)
                return
            is_method = inspect.isclass(self.pruning_fn)
            run: Any = self.pruning_fn.apply if is_method else self.pruning_fn
            for place in self._places:
                run(place.module, name=place.name, amount=amount, **self._options)

    def apply_lottery_ticket_hypothesis(self) -> None:
        """Give parameters the values that the fit began with, or new ones where the layer can draw them."""
        for blank in self._blanks.values():
            blank.reset_parameters()  # type: ignore[operator]  # those that can were kept
        for place, original in zip(self._places, self._originals, strict=True):
            fresh = self._blanks.get(id(place.module))
            place.parameter.copy_(original if fresh is None else getattr(fresh, place.name))
            place.refresh()

    def make_pruning_permanent(self, module: torch.nn.Module) -> None:
        """Put zeros into the parameters and take the masks off."""
        settle(pruned_places(module))

    def state_dict(self) -> dict[str, Any]:
        """Return the masks, and the values that the fit began with where they are needed again."""
        masks = {
            path: place.mask.bool()
            for path, place in zip(self._paths, self._places, strict=True)
            if place.is_pruned
        }
        originals = dict(zip(self._paths, self._originals, strict=False))
        return {"masks": masks or self._masks, "originals": originals}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on with them, once the fit starts."""
        self._loaded = state_dict

    def setup(self, trainer: Run, module: Module, stage: str) -> None:
        """A fit begins anew, unless a checkpoint has masks.

        A module that an earlier fit left with masks is made plain for a checkpoint, which is.
        """
        if stage == "fit":
            refuse_apart(self, trainer)
            self._forget()
        if not trainer.strategy.has_whole_model and trainer.world_size > 1:
            raise _in_parts(trainer)
        if trainer.ckpt_path is not None:
            with _plain_tensors():
                self.make_pruning_permanent(module)

    def on_fit_start(self, trainer: Run, module: Module) -> None:
        """Find what is to be pruned, and keep the values that it begins with."""
        self._is_fitting = True
        self._places = [Place(*_pair(self, pair)) for pair in self._found(module)]
        paths = {id(part): path for path, part in module.named_modules()}
        self._paths = [".".join(filter(None, (paths[id(part)], name))) for part, name in self._places]
        if self._lottery is False:
            return
        originals = self._loaded.get("originals", {})
        for path, place in zip(self._paths, self._places, strict=True):
            start = originals.get(path, place.parameter)
            self._originals.append(start.detach().clone().to(place.parameter.device))
            part = place.module
            if self._resamples and hasattr(part, "reset_parameters") and id(part) not in self._blanks:
                with _plain_tensors():
                    place.refresh()
                    self._blanks[id(part)] = blank = deepcopy(part)
                    settle(pruned_places(blank))

    def on_train_start(self, trainer: Run, module: Module) -> None:
        """Take up the masks of a run that is resumed."""
        masks, self._loaded = self._loaded.get("masks", {}), {}
        with _plain_tensors(), in_order(self._places):
            for path, place in zip(self._paths, self._places, strict=True):
                if path in masks:
                    mask = masks[path].to(place.parameter)
                    prune.custom_from_mask(*place, mask)  # type: ignore[no-untyped-call]  # torch's

    def on_train_epoch_end(self, trainer: Run, module: Module) -> None:
        """Prune, if it is done here; an epoch that is cut short is pruned at its end, once it is resumed."""
        if self._at_epoch_end and trainer.is_epoch_whole:
            self._prune(trainer)

    def on_validation_epoch_end(self, trainer: Run, module: Module) -> None:
        """Prune, if it is done here."""
        if not self._at_epoch_end and self._is_fitting and not trainer.sanity_checking:
            self._prune(trainer)

    def on_train_end(self, trainer: Run, module: Module) -> None:
        """Leave plain weights in the module."""
        self._is_fitting = False
        self._masks = self.state_dict()["masks"]
        with _plain_tensors():
            if self._is_permanent:
                self.make_pruning_permanent(module)
            for place in self._places:
                place.refresh()

    def on_exception(self, trainer: Run, module: Module, exception: BaseException) -> None:
        """Prune no more."""
        self._is_fitting = False

    def on_save_checkpoint(self, trainer: Run, module: Module, checkpoint: dict[str, Any]) -> None:
        """Save plain weights."""
        for key in ("state_dict", "current_model_state"):
            if key in checkpoint:
                checkpoint[key] = plain_state(checkpoint[key], self._all_paths(module))

    def _all_paths(self, module: torch.nn.Module) -> list[str]:
        """Return the names of what has masks, each under all names that its module has."""
        wanted = [(id(part), name) for part, name in pruned_places(module)]
        return [
            ".".join(filter(None, (path, name)))
            for path, part in module.named_modules(remove_duplicate=False)
            for known, name in wanted
            if known == id(part)
        ]

    def _found(self, module: Module) -> Sequence[tuple[torch.nn.Module, str]]:
        every = {id(part) for part in module.modules()}
        for part, name in self._wanted:
            if id(part) not in every or not _has(part, name):
                raise bad_argument(
                    self,
                    "parameters_to_prune",
                    (type(part).__name__, name),
                    f"modules of {type(module).__name__}, each with the name of a parameter of its own",
                )
        found: Sequence[tuple[torch.nn.Module, str]] = self._wanted or [
            Place(part, name)
            for name in self._names
            for part in module.modules()
            if not isinstance(part, _CONTAINERS) and _has(part, name)
        ]
        found = self.filter_parameters_to_prune(found)
        if not found:
            what = f"pairs; {type(module).__name__} has no layer with {listed(self._names)}"
            raise bad_argument(self, "parameters_to_prune", self._wanted, what, "say what is to be pruned")
        return found

    def _prune(self, trainer: Run) -> None:
        epoch = trainer.current_epoch
        amount = self.amount(epoch) if callable(self.amount) else self.amount
        if not (self._apply(epoch) if callable(self._apply) else self._apply) or not amount:
            return
        before = [place.density for place in self._places] if self._verbose else []
        with _plain_tensors():
            self.apply_pruning(amount)
            if self._lottery(epoch) if callable(self._lottery) else self._lottery:
                self.apply_lottery_ticket_hypothesis()
            if trainer.world_size > 1:
                self._share(trainer)
        if self._verbose:
            self._tell(trainer, before)

    def _share(self, trainer: Run) -> None:
        """Give every rank rank 0's masks and values: each rank draws random numbers of its own."""
        for place in self._places:
            for one in (place.mask, place.parameter) if place.is_pruned else ():
                one.copy_(trainer.collectives.broadcast(one.detach(), source=0))
            place.refresh()

    def _tell(self, trainer: Run, before: list[tuple[int, int]]) -> None:
        after = [place.density for place in self._places]
        total = sum(count for _, count in after)
        kind = getattr(self.pruning_fn, "__name__", type(self.pruning_fn).__name__)
        was, now = sum(one for one, _ in before), sum(one for one, _ in after)
        say(trainer, f"{kind}: pruned {_part(was, total)} -> {_part(now, total)}")
        if self._verbose == _LOUDEST:
            for path, (earlier, _), (later, count) in zip(self._paths, before, after, strict=True):
                say(trainer, f"  {path}: {_part(earlier, count)} -> {_part(later, count)}")


@contextmanager
def _plain_tensors() -> Iterator[None]:
    """Make tensors that training can use, also in a validation, and without a graph."""
    with torch.inference_mode(mode=False), torch.no_grad():
        yield


def _has(module: torch.nn.Module, name: str) -> bool:
    own = module._parameters  # noqa: SLF001 - its own, not those of its parts
    return own.get(name) is not None or own.get(f"{name}_orig") is not None


def _part(count: int, total: int) -> str:
    return f"{count}/{total} ({count / total:.2%})"


def _pair(owner: object, pair: Any) -> tuple[torch.nn.Module, str]:
    is_pair = isinstance(pair, (tuple, list)) and len(pair) == 2  # noqa: PLR2004 - a pair
    if not is_pair or not isinstance(pair[0], torch.nn.Module) or not isinstance(pair[1], str):
        raise bad_argument(owner, "parameters_to_prune", pair, "pairs of a module and a parameter's name")
    return pair[0], pair[1]


def _amount(owner: object, amount: Any) -> Any:
    is_number = type(amount) is int or (type(amount) is float and amount <= 1)
    if callable(amount) or (is_number and amount >= 0):
        return amount
    what = "an int of 0 or more (entries), a float from 0.0 to 1.0 (part), or a function of the epoch"
    raise bad_argument(owner, "amount", amount, what)


def _choice(owner: object, name: str, value: Any) -> Any:
    if not isinstance(value, bool) and not callable(value):
        raise bad_argument(owner, name, value, "True, False or a function of the epoch")
    return value


def _in_parts(trainer: Run) -> ModuleError:
    name = trainer.plan.strategy.name
    return ModuleError(
        "callback.in-parts",
        f"ModelPruning under strategy {name!r}",
        values={"strategy": name},
        because="which weights are the least important is found among all of them, and no rank has them all",
        hint="pass strategy='ddp', where each rank has the whole model",
    )
