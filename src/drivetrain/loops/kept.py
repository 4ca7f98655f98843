"""What a checkpoint keeps of a training, looked at before any of it is taken up."""

from __future__ import annotations

import contextlib
import copy
import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import fields
from typing import Any

import torch

from drivetrain.base.text import kind_name
from drivetrain.checkpoint_io.entry import Entry
from drivetrain.loops.progress import Progress
from drivetrain.loops.switches import NAMES as SWITCHES
from drivetrain.modules.run import LogOptions

_OTHERS = (torch.optim.Adafactor, torch.optim.LBFGS, torch.optim.SparseAdam)
"""torch's optimizers whose step reads values, or needs something else than dense gradients."""


_GROUP = ("lr", "betas", "momentum", "weight_decay")
"""Of what an optimizer's group has, what every version of torch saves."""
_NEW = {"closed_at", "evaluated", "is_stopping", "is_validating", "passed"}
"""Counters that files from before they were kept do not have."""
_SCHEDULER = {"last_epoch", "_step_count", "best", "num_bad_epochs", "cooldown_counter"}
"""As above, of what a scheduler counts."""
_SWITCHES = {"foreach": False, "fused": False, "capturable": False, "differentiable": False}
"""How a step is computed, not what."""


def check_kept(top: Entry, *, counts_tokens: bool = False) -> None:
    """Look at everything that is ours; what is others' (optimizers, callbacks, data) is looked at by them.

    Files from before tokens were counted lack their number; only a run that counts them needs it.

    Raises:
        CheckpointError [checkpoint.damaged]: something is missing, or is not what it should be.
    """
    fit = top["loops"]["fit"]
    _check_progress(fit["progress"], counts_tokens=counts_tokens)
    for window in fit["window"].each():
        window.check_like({"planned": 1, "unit": 1, "batches": 0, "samples": 0})
        for name, least in (("planned", 1), ("unit", 1), ("batches", 0), ("samples", 0)):
            window[name].integer(least)
    for _, metric in fit["metrics"].named():
        metric.check_like(torch.zeros(()))
    fit["precision"].mapping()
    top["datamodule"].mapping()
    for _, state in top["callbacks"].named():
        state.mapping()
    _check_ranks(top, fit)


def _check_ranks(top: Entry, fit: Entry) -> None:
    """Look at what each rank has of its own: all of it is of as many ranks."""
    ranks = top["rng"].each()
    for name in ("logged", "windows", "data"):
        if len(fit[name].each()) != len(ranks):
            raise fit[name].damaged(
                f"{fit[name].name} is of {len(fit[name].value)} ranks, rng of {len(ranks)}"
            )
        for rank in fit[name].each():
            rank.mapping()
    for rank in ranks:
        _check_rng(rank)
    for rank in fit["logged"].each():
        for _, slot in rank.named():
            _check_slot(slot)
    _check_newer(fit, len(ranks))
    is_open = any(window["batches"].value for window in fit["window"].each())
    for rank in fit["windows"].each():
        # In manual optimization there are gradients without windows, and so without weights.
        is_manual = bool(rank.value) and not rank["weights"].sequence()
        if bool(rank.value) is is_open or is_manual:
            continue
        raise fit["windows"].damaged("loops.fit.windows has gradients, or none, unlike loops.fit.window")
    if fit["is_exact"].flag() and not ranks:
        raise top["rng"].damaged("rng is empty, and nothing says that the run was cut off")


def _check_newer(fit: Entry, num_ranks: int) -> None:
    """Look at what older files do not have: what hooks logged, and torchmetrics objects."""
    kept = fit.mapping()
    for rank in fit["hooked"].each(num_ranks) if "hooked" in kept else ():
        for _, slot in rank.named():
            _check_slot(slot)
    for rank in fit["meters"].each(num_ranks) if "meters" in kept else ():
        for _, meter in rank.named():
            meter.check_like({"state": {}, "updates": 0})
    for rank in fit["strategies"].each(num_ranks) if "strategies" in kept else ():
        _check_strategy(rank)
    for rank in fit["windows"].each():
        if "is_reduced" in rank.mapping():
            rank["is_reduced"].flag()
    _check_said(fit)


def _check_strategy(rank: Entry) -> None:
    """Look at what a rank's strategy had: counts, flags, tensors and optimizers' states."""
    kept = rank.mapping()
    for name in ("steps", "settled"):
        if name in kept:
            rank[name].integer()
    if "is_apart" in kept:
        rank["is_apart"].flag()
    if "hook" in kept:
        rank["hook"]["steps"].integer()
        for name in ("errors", "factors"):
            for _, one in rank["hook"][name].named():
                one.tensor()
    for one in rank["tensors"].each() if "tensors" in kept else ():
        one.tensor()
    for one in rank["optimizers"].each() if "optimizers" in kept else ():
        one["state"].mapping(), one["param_groups"].sequence()


def _check_said(fit: Entry) -> None:
    kept = fit.mapping()
    if "switches" in kept:
        for name in ("begun", "now"):
            for switch in SWITCHES:
                _check_texts(fit["switches"][name][switch])
    if "names" in kept:
        for name in ("bar", "unlogged"):
            _check_texts(fit["names"][name])
    if "loaded" in kept:
        fit["loaded"]["epoch"].integer()
        fit["loaded"]["datamodule"].mapping()
    for name in ("logged", "hooked") if "functions" in kept else ():
        for _, value in fit["functions"][name].named():
            value.tensor(())


def _check_texts(entry: Entry) -> None:
    for one in entry.each():
        one.text()


def _check_progress(entry: Entry, *, counts_tokens: bool) -> None:
    kept = entry.mapping()
    for spec in fields(Progress):
        if spec.name in _NEW and spec.name not in kept:
            continue
        if spec.name == "tokens" and "tokens" not in kept and not counts_tokens:
            continue
        if spec.name == "evaluated":
            for _, count in entry["evaluated"].named():
                count.integer()
        elif spec.name == "passed":
            for _, one in entry["passed"].named():
                said, number = one.each(2)
                said.text(), number.integer()
        elif isinstance(spec.default, bool):
            entry[spec.name].flag()
        else:
            assert isinstance(spec.default, int)  # noqa: S101 - counters and flags are what is left
            entry[spec.name].integer(min(spec.default, 0) if spec.name != "accumulate" else 1)


_SLOT: dict[str, Any] = {
    **dict.fromkeys(("on_step", "on_epoch", "is_of_epoch"), True),
    **dict.fromkeys(("weight", "latest_weight"), 0.0),
    **dict.fromkeys(("said", "values", "total", "latest", "metric")),
    "weights": [],
    "attribute": "",
    "is_logged": True,
}
_FLAGS = {"prog_bar", "logger", "add_dataloader_idx", "sync_dist", "rank_zero_only", "enable_graph"}


def _check_slot(slot: Entry) -> None:
    slot.check_like(_SLOT)
    said = slot["said"].each(len(LogOptions._fields))
    for entry, name in zip(said, LogOptions._fields, strict=True):
        entry.check_like(True if name in _FLAGS else "" if name == "reduce_fx" else None)
    weights = slot["weights"].each()
    for weight in weights:
        weight.number()
    shapes = {"values": (len(weights),), "total": None, "latest": None}
    for name, shape in shapes.items():
        if slot[name].value is not None:
            slot[name].tensor(shape)
    if slot["metric"].value is not None:
        slot["metric"].check_like({"state": {}, "updates": 0})


def _check_rng(rank: Entry) -> None:
    _, _, gauss = rank["python"].each(3)
    for entry, is_there in ((gauss, gauss.number), (rank["device"], rank["device"].tensor)):
        if entry.value is not None:
            is_there()
    rank["torch"].tensor(tuple(torch.default_generator.get_state().shape))


def load_optimizer(
    optimizer: torch.optim.Optimizer,
    entry: Entry,
    load: Any,
    own_part: Callable[[torch.optim.Optimizer], AbstractContextManager[Any]] = contextlib.nullcontext,
) -> None:
    """Load an optimizer's state by ``load``, and see whether a step could be taken with it.

    Within ``own_part`` the optimizer has what it steps on here, on this rank.

    torch takes whatever it is given, and fails at the next step. Its own optimizers take that step here on
    tensors without data, which costs neither memory nor anything of the run.
    """
    groups = copy.deepcopy([_options(group) for group in optimizer.param_groups])
    _check_groups(entry, groups)
    with entry.reading():
        load(optimizer, entry.value)
        for group, options in zip(optimizer.param_groups, groups, strict=True):
            for name, value in options.items():
                group.setdefault(name, value)  # saved by an older torch, which did not have it
    with entry["state"].reading(), own_part(optimizer):
        try:
            _try_step(optimizer)
        except RuntimeError as error:
            if "meta" not in str(error):  # a step that reads values cannot be tried
                raise


def _check_groups(entry: Entry, groups: list[dict[str, Any]]) -> None:
    known = set()
    for kept, options in zip(entry["param_groups"].each(len(groups)), groups, strict=True):
        known |= {number.integer() for number in kept["params"].each()}
        for name, value in options.items():
            if name in kept.mapping() or name in _GROUP:
                kept[name].check_like(value, may_lack=True)
        for name in kept.mapping().keys() & _SWITCHES.keys():
            if kept[name].value is not None:
                kept[name].flag()
    for number in entry["state"].mapping():
        if type(number) is int and number not in known:
            raise entry.damaged(f"{entry.name}.state has {number}, which is none of the parameters")


def _options(group: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in group.items() if name != "params"}


def _try_step(optimizer: torch.optim.Optimizer) -> None:
    """Take a step on tensors without data."""
    kind = type(optimizer)
    is_known = f"{kind.__module__}.".startswith("torch.optim.") and not issubclass(kind, _OTHERS)
    parameters = [one for group in optimizer.param_groups for one in group["params"]]
    if not is_known or any(type(one) is not torch.nn.Parameter or one.is_sparse for one in parameters):
        return
    twin = copy.copy(optimizer)
    twin.param_groups, twin.state = [], type(optimizer.state)(dict)
    for group in optimizer.param_groups:
        said = {name: value for name, value in _SWITCHES.items() if name in group}
        stand_ins = {}
        for parameter in group["params"]:
            state = optimizer.state.get(parameter, {})
            looks = tuple((name, _looks(value)) for name, value in state.items())
            key = (parameter.shape, parameter.dtype, parameter.requires_grad, looks)
            if key in stand_ins:
                continue  # of those that look alike, one is enough
            stand_ins[key] = one = torch.nn.Parameter(torch.empty_like(parameter, device="meta"))
            one.grad = torch.empty_like(one) if parameter.requires_grad else None
            if state:
                twin.state[one] = {name: _without_data(value) for name, value in state.items()}
        twin.param_groups.append({**group, **said, "params": [*stand_ins.values()]})
    with torch.no_grad(), contextlib.suppress(NotImplementedError):
        # As it is written, without what torch puts around it to call the hooks of this and every optimizer.
        inspect.unwrap(kind.step)(twin)


def _looks(value: Any) -> Any:
    is_tensor = isinstance(value, torch.Tensor)
    return (value.shape, value.dtype) if is_tensor else kind_name(value)


def _without_data(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    # A counter is read; it has one value, so a copy is enough.
    return value.detach().to("meta") if value.dim() else value.detach().cpu().clone()


def load_scheduler(scheduler: Any, entry: Entry) -> None:
    """Load a scheduler's state; torch's own take whatever they are given, so they are looked at before."""
    if type(scheduler).__module__ == torch.optim.lr_scheduler.__name__:
        mine = scheduler.state_dict()
        kept = {name: value for name, value in mine.items() if name in entry.mapping() or name in _SCHEDULER}
        entry.check_like(kept, may_lack=True)
        for name in kept.keys() & {"base_lrs", "_last_lr"}:
            # A group that was added within the fit has its rates in the scheduler from the next step on.
            groups = len(scheduler.optimizer.param_groups)
            entry[name].each(groups if len(entry[name].sequence()) == groups else len(mine[name]))
    with entry.reading():
        scheduler.load_state_dict(entry.value)
