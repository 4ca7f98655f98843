"""Logged values of a run: kept as they come, reduced over steps and ranks when they are due."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, final

import torch

from drivetrain.base.errors import ModuleError
from drivetrain.collectives.collectives import Collectives
from drivetrain.data.seeds import mix
from drivetrain.loops.reduction import Entry, reduced
from drivetrain.loops.refusal import collection, not_kept, nowhere
from drivetrain.loops.slots import (
    NAMES,
    Slot,
    checked,
    combined,
    is_metric,
    one_value,
    read_fx,
    read_weight,
)
from drivetrain.loops.ways import Way, changed, disagree, marked, plain_options, way_of
from drivetrain.modules.run import LogOptions

Phase = tuple[str, int]
"""A part of a run whose values belong together: (``train step``, 0), (``validation``, loader number)."""
Key = tuple[Phase, str]

TRAIN_STEP: Phase = ("train step", 0)
TRAIN_EPOCH: Phase = ("train epoch", 0)
_OUTSIDE: Phase = ("outside", 0)
"""Before the first of them and after the last, and in predict: nothing reduces what is logged there."""
_NUM_COMPARED = LogOptions._fields.index("batch_size")


class Part(NamedTuple):
    """What a phase that is being reduced needs to be told."""

    suffix: str = ""
    """What its names end in, to tell loaders apart."""
    ran: bool = True
    """Whether this rank had batches; one without has no names to compare."""


class Agreed(NamedTuple):
    """What all ranks say of one name."""

    said: LogOptions
    on_step: bool
    attribute: str
    """Where the module holds the torchmetrics object; empty where it is a plain value."""


@final
class Results:
    """Takes what is logged on this rank; every reduction is one bundle of all names, in order.

    Over ranks, a step's values are reduced at the steps that `reduce_step` is called for, an epoch's
    once at its end. Before a bundle is reduced the ranks compare which names they have.
    """

    def __init__(self, collectives: Collectives, device: torch.device, module: torch.nn.Module) -> None:
        self._collectives, self._device, self._module = collectives, device, module
        self._world_size = collectives.world_size
        self._bar: set[str] = set()
        self._slots: dict[Key, Slot] = {}
        self._phase: Phase = _OUTSIDE
        self._in_step = False
        self._size = 1
        self._step = 0
        self._metrics: dict[str, torch.Tensor] = {}
        self._unlogged: set[str] = set()
        """Names that are not for loggers."""
        self._local: set[str] = set()
        """Names that are this rank's own."""
        self._words: dict[tuple[str, ...], int] = {}
        self.is_fresh = False
        """Whether something was logged since the newest `reduce_step`."""
        self.has_batch_values = False
        """Whether a batch of an evaluation logged something that is its own."""
        self._functions: dict[Key, torch.Tensor] = {}
        """What a resumed run's values come to by functions, which a checkpoint cannot hold."""
        self.noted: list[tuple[str, Any, LogOptions]] = []
        """What a compiled graph logged; empty whenever a step begins, so that no graph depends on it."""

    def _take_noted(self) -> None:
        noted = self.noted[:]
        self.noted.clear()
        for one in noted:
            self.log(*one)

    def enter(self, phase: Phase, *, in_step: bool = False) -> None:
        """Say where the run is: what is logged from now on belongs there."""
        if self.noted:
            self._take_noted()
        self._phase, self._in_step, self._size = phase, in_step, 1
        if in_step:
            # From here on the newest value of a name that is kept both ways is a step's again.
            for (of, name), slot in self._slots.items():
                if of == phase and slot.on_step and slot.on_epoch and self._is_live(slot):
                    self._metrics.pop(name, None)

    def leave(self) -> None:
        """Say that nothing is logged from now on."""
        self.enter(_OUTSIDE)

    def clear(self) -> None:
        """Forget everything: what a check before the fit logged."""
        for slot in self._slots.values():
            slot.reset()
        for kept in (self._slots, self._metrics, self._bar, self._unlogged, self._local, self.noted):
            kept.clear()

    def at_batch(self, step: int, size: int) -> None:
        """Say how many samples the batch has that steps log about; 0 for a stand-in."""
        if self.noted:
            self._take_noted()
        self._step, self._size = step, size

    def log(self, name: str, value: Any, options: LogOptions) -> None:
        """Keep a value."""
        if self.noted:
            self._take_noted()
        if type(name) is not str or not name:
            raise ModuleError(
                "module.log-value",
                f"self.log({name!r}, ...)",
                values={"name": name},
                because="a value is logged under a name, a text that is not empty",
                hint="pass a name first: self.log('loss', loss)",
            )
        key = (self._phase, name)
        slot = self._slots.get(key)
        if slot is None:
            slot = self._slots[key] = self._opened(name, value, options)
        elif slot.said[:_NUM_COMPARED] != options[:_NUM_COMPARED]:
            self._recheck(name, slot, options)
        weight: float = self._size
        if options.batch_size is not None and self._size:
            weight = read_weight(name, options.batch_size)
        slot.latest_weight, slot.step, slot.is_logged = weight, self._step, True
        self.is_fresh = True
        if slot.metric is None:
            slot.latest = checked(name, value, enable_graph=options.enable_graph)
            if slot.on_epoch and weight:
                kept = slot.latest
                slot.add(
                    kept.detach() if options.enable_graph and isinstance(kept, torch.Tensor) else kept, weight
                )
        elif slot.on_step:
            slot.latest = _of_this_step(name, value)

    def _opened(self, name: str, value: Any, said: LogOptions) -> Slot:
        is_train_step = self._in_step and self._phase == TRAIN_STEP
        has_steps = is_train_step or (self._phase != TRAIN_STEP and not self._phase[0].endswith(" epoch"))
        on_step = is_train_step if said.on_step is None else said.on_step
        on_epoch = not is_train_step if said.on_epoch is None else said.on_epoch
        if self._phase == _OUTSIDE:
            raise nowhere(name)
        if not on_epoch and not (on_step and has_steps):
            raise not_kept(name, on_step=on_step)
        self.has_batch_values |= on_step and has_steps and not is_train_step
        slot = Slot(said, on_step=on_step, on_epoch=on_epoch)
        slot.fx = read_fx("reduce_fx", said.reduce_fx)
        if said.rank_fx is not None:
            read_fx("rank_fx", said.rank_fx)
        if is_metric(value):
            if isinstance(value, torch.nn.ModuleDict):
                raise collection(name, value)
            slot.metric = value
            slot.attribute = str(said.metric_attribute or self._attribute(name, value))
        slot.mark = marked(name, slot)
        return slot

    def batch_values(self, suffix: str) -> dict[str, torch.Tensor]:
        """Return what the batch of an evaluation logged for loggers, of this rank."""
        if self.noted:
            self._take_noted()
        found: dict[str, torch.Tensor] = {}
        for (phase, name), slot in self._slots.items():
            if phase == self._phase and slot.on_step and slot.step == self._step and slot.said.logger:
                known = _names(name, "step", is_both=slot.on_epoch)[0]
                found[known + (suffix if slot.said.add_dataloader_idx else "")] = torch.as_tensor(slot.latest)
        return found

    def _attribute(self, name: str, metric: Any) -> str:
        for path, one in self._module.named_modules():
            if one is metric:
                return str(path)
        raise ModuleError(
            "module.log-value",
            f"self.log({name!r}, ...) got a {type(metric).__name__} that the module does not hold",
            values={"name": name, "module": type(self._module).__name__},
            because="every rank, and a resumed run, has to find the metric's state by its name",
            hint="assign it in __init__: self.accuracy = ..., or a torch.nn.ModuleDict of several",
        )

    def _recheck(self, name: str, slot: Slot, options: LogOptions) -> None:
        """Accept options that only seem to differ: a function that was made anew, or is from a checkpoint."""
        before, now = (
            plain_options(slot.said, slot.fx),
            plain_options(options, read_fx("reduce_fx", options.reduce_fx)),
        )
        if before[:_NUM_COMPARED] != now[:_NUM_COMPARED]:
            raise changed(name, before, now)
        slot.said, slot.fx = options, read_fx("reduce_fx", options.reduce_fx)

    def _step_slots(self) -> dict[str, Slot]:
        """Return what this step logged and all ranks share, by name."""
        if self.noted:
            self._take_noted()
        step = self._step
        return {
            name: slot
            for (phase, name), slot in self._slots.items()
            if slot.step == step and phase == TRAIN_STEP and slot.on_step and _is_shared(slot.said)
        }

    def step_names(self) -> tuple[str, ...]:
        """Return the marks of what this step logged and all ranks share: its names, and how each is kept."""
        return tuple([slot.mark for slot in self._step_slots().values()])

    def word(self, names: tuple[str, ...]) -> int:
        """Return a number that any difference in the names changes, their order apart."""
        word = self._words.get(names)
        if word is None:
            word = self._words[names] = mix(*"\n".join(sorted(names)).encode()) >> 1
        return word

    def compare(self, steps: list[tuple[str, ...]]) -> None:
        """Raise for the first of several steps whose names, or the ways they are kept in, differ over ranks.

        Collectives:
            one gather of the names and their options; every rank must call.
        Raises:
            CollectiveError [loop.logged-keys]: always.
        """
        mine = [sorted(marks) for marks in steps], self._ways([TRAIN_STEP])[TRAIN_STEP]
        everybody = self._collectives.all_gather_object(mine)
        for of_ranks in zip(*(marks for marks, _ in everybody), strict=True):
            if any(marks != of_ranks[0] for marks in of_ranks):
                raise disagree(dict(enumerate(of_ranks)), [ways for _, ways in everybody], "a step")

    def _ways(self, phases: Iterable[Phase]) -> dict[Phase, dict[str, Way]]:
        """Return how this rank keeps each name of some phases."""
        found: dict[Phase, dict[str, Way]] = {phase: {} for phase in phases}
        for (phase, name), slot in self._slots.items():
            if phase in found:
                found[phase][name] = way_of(slot)
        return found

    def epoch_names(self) -> tuple[str, ...]:
        """Return the marks of what steps of this epoch logged and all ranks share, for `reduce_step`."""
        return tuple([slot.mark for slot in self._epoch_slots().values() if _is_shared(slot.said)])

    def _epoch_slots(self) -> dict[str, Slot]:
        """Return what steps of this epoch logged, each name's newest, whether this step has one or not."""
        if self.noted:
            self._take_noted()
        return {
            name: slot
            for (phase, name), slot in self._slots.items()
            if phase == TRAIN_STEP and slot.on_step and slot.step >= 0
        }

    def reduce_step(self) -> None:
        """Make the newest values of the epoch's steps those of all ranks, whose names were compared before.

        A name that only some steps log would else be written only where such a step is a logging step.

        Collectives:
            with several ranks, those of `reduced`; every rank must call.
        """
        self.is_fresh = False
        if self._world_size == 1:
            return
        here = {name: slot for name, slot in sorted(self._epoch_slots().items()) if _is_shared(slot.said)}
        names, slots = list(here), list(here.values())
        entries = [_step_entry(slot) for slot in slots]
        for name, slot, value in zip(
            names, slots, reduced(entries, self._collectives, self._device), strict=True
        ):
            self._metrics |= dict.fromkeys(_names(name, "step", is_both=slot.on_epoch), value)

    def step_values(self) -> dict[str, torch.Tensor]:
        """Return what steps of this epoch logged for loggers, each name's newest."""
        metrics = self.metrics()
        found: dict[str, torch.Tensor] = {}
        for name, slot in self._epoch_slots().items():
            if slot.said.logger:
                known = _names(name, "step", is_both=slot.on_epoch)[0]
                if known in metrics:
                    found[known] = metrics[known]
        return found

    def reduce_epoch(
        self, phases: Mapping[Phase, Part], *, keep: bool = False
    ) -> dict[Phase, dict[str, torch.Tensor]]:
        """Return each phase's epoch values over all ranks, on the CPU, and begin them anew.

        With ``keep`` they go on until `forget`: the run only stops in the epoch, or its hooks come first.

        Collectives:
            with several ranks, their names, and those of `reduced`; every rank must call.

        Raises:
            CollectiveError [loop.logged-keys]: ranks that had batches logged different names.
        """
        if self.noted:
            self._take_noted()
        here = {
            key: slot
            for key, slot in sorted(self._slots.items())
            if key[0] in phases and slot.on_epoch and slot.is_logged
        }
        keys = self._agreed(here, phases)
        found: dict[Phase, dict[str, torch.Tensor]] = {phase: {} for phase in phases}
        for (phase, name), value in self._epoch_values(here, keys).items():
            said, is_on_step = keys[phase, name][:2]
            suffix = phases[phase].suffix if said.add_dataloader_idx else ""
            for known in _names(name, "epoch", is_both=is_on_step):
                found[phase][known + suffix] = value
            if not said.logger or is_on_step:
                self._unlogged.add(name + suffix)
            if not said.logger:
                self._unlogged.add(f"{name}_epoch{suffix}")
            self._bar |= {name + suffix} if said.prog_bar else set()
        for values in found.values():
            self._metrics |= values
        if not keep:
            self.forget(list(phases))
        return found

    def for_loggers(self, values: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Return those epoch values that loggers are to get."""
        return {name: value for name, value in values.items() if name not in self._unlogged}

    def _epoch_values(self, here: Mapping[Key, Slot], keys: Mapping[Key, Agreed]) -> dict[Key, torch.Tensor]:
        found: dict[Key, torch.Tensor] = {}
        entries: dict[Key, Entry] = {}
        for key, agreed in keys.items():
            slot = here.get(key)
            if agreed.attribute:
                found[key] = self._computed(agreed.attribute, slot)
            elif not _is_known(agreed.said):
                found |= {key: self._functions[key]} if key in self._functions else {}  # nothing is new
            elif _is_shared(agreed.said):
                entries[key] = _epoch_entry(slot, agreed.said)
            elif slot is not None and not (agreed.said.rank_zero_only and self._collectives.rank):
                found[key] = slot.value().cpu()
        values = reduced(list(entries.values()), self._collectives, self._device)
        if values:
            found |= dict(zip(entries, torch.stack(values).cpu().unbind(), strict=True))
        return {key: found[key] for key in keys if key in found}

    def _computed(self, attribute: str, slot: Slot | None) -> torch.Tensor:
        """Return what a torchmetrics object comes to; it gathers its own state from all ranks."""
        metric: Any = slot.metric if slot is not None else self._module.get_submodule(attribute)
        with warnings.catch_warnings():
            # A rank that had no batches takes part with an empty state, which torchmetrics warns about.
            warnings.filterwarnings(
                "ignore", message=".*``compute`` method of metric.*", category=UserWarning
            )
            return one_value(attribute, metric.compute())

    def forget(self, phases: list[Phase]) -> None:
        """Begin the epoch values of some phases anew."""
        for key in [key for key in self._slots if key[0] in phases]:
            slot = self._slots[key]
            slot.step = -1
            self._functions.pop(key, None)
            if slot.on_epoch:
                slot.reset()
            if not slot.on_step:
                del self._slots[key]

    def note(self, values: Mapping[str, float]) -> None:
        """Put values among the metrics, at once; loggers get them elsewhere, every rank has the same."""
        self._metrics |= {name: torch.tensor(value, dtype=torch.float64) for name, value in values.items()}
        self._unlogged |= values.keys()

    def metrics(self) -> dict[str, torch.Tensor]:
        """Return the newest value of each name, over all ranks as far as they were reduced."""
        if self.noted:
            self._take_noted()
        return {**self._latest(), **self._metrics, **self._of_hooks()}

    def progress_bar(self) -> dict[str, torch.Tensor]:
        """Return the newest value of each name that is for the bar: this rank's own for a step's."""
        if self.noted:
            self._take_noted()
        bar = [
            (name, slot)
            for (_, name), slot in self._slots.items()
            if slot.said.prog_bar and slot.latest is not None
        ]
        steps = {
            name + "_step" * slot.on_epoch: torch.as_tensor(slot.latest) for name, slot in bar if slot.on_step
        }
        epochs = {f"{name}_epoch" if f"{name}_epoch" in self._metrics else name for name in self._bar}
        return steps | {name: self._metrics[name] for name in sorted(epochs) if name in self._metrics}

    def logged(self) -> dict[str, torch.Tensor]:
        """Return the newest value of each name that loggers get, whether they got it already or not."""
        hidden = set(self._unlogged)
        for (_, name), slot in self._slots.items():
            if slot.on_step and not slot.said.logger:
                hidden |= {name, f"{name}_step", f"{name}_epoch"}
            elif slot.on_step and slot.on_epoch:
                hidden.add(name)
        return {name: value for name, value in self.metrics().items() if name not in hidden}

    def _is_live(self, slot: Slot) -> bool:
        """Whether the newest value is known before a reduction: no other rank has a part in it."""
        if self._world_size == 1:
            return True
        return not _is_shared(slot.said) and not (slot.said.rank_zero_only and self._collectives.rank)

    def _of_hooks(self) -> dict[str, torch.Tensor]:
        """Return what the hooks around an epoch, which run now, have logged so far."""
        return {
            name: slot.value()
            for (phase, name), slot in self._slots.items()
            if phase == self._phase
            and phase[0].endswith(" epoch")
            and slot.on_epoch
            and slot.metric is None
            and self._is_live(slot)
        }

    def _latest(self) -> dict[str, torch.Tensor]:
        found: dict[str, torch.Tensor] = {}
        for (_, name), slot in self._slots.items():
            if slot.on_step and slot.latest is not None and self._is_live(slot):
                found |= dict.fromkeys(
                    _names(name, "step", is_both=slot.on_epoch), torch.as_tensor(slot.latest)
                )
        return found

    def state_dict(self, phase: Phase = TRAIN_STEP) -> dict[str, Any]:
        """Return this rank's part of a training epoch that is going on."""
        if self.noted:
            self._take_noted()
        return {name: slot.state_dict() for (kept, name), slot in self._slots.items() if kept == phase}

    def by_functions(self, phase: Phase, of_ranks: Sequence[Mapping[str, Any]]) -> dict[str, torch.Tensor]:
        """Return what all ranks' values come to so far, where that is said by functions."""
        found: dict[str, torch.Tensor] = {}
        for (kept, name), slot in self._slots.items():
            said = slot.said
            if kept != phase or not slot.on_epoch or slot.metric is not None:
                continue
            if not _is_known(said):
                found |= {name: self._functions[kept, name]} if (kept, name) in self._functions else {}
                continue
            states = [
                one[name]
                for one in of_ranks
                if name in one and one[name]["weight"] + len(one[name]["weights"])
            ]
            fxs = slot.fx, read_fx("rank_fx", said.rank_fx or "mean")
            if not states or all(isinstance(fx, str) for fx in fxs):
                continue
            # Of a part of the epoch the function may have nothing to say yet; at its end it is asked again.
            with contextlib.suppress(Exception), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found[name] = combined(slot, states if _is_shared(said) else states[:1])
        return found

    def metrics_state(self) -> dict[str, torch.Tensor]:
        """Return the reduced values."""
        return {name: value.detach().cpu() for name, value in self._metrics.items()}

    def load_state_dict(
        self, state: dict[str, Any], phase: Phase = TRAIN_STEP, functions: Mapping[str, Any] | None = None
    ) -> None:
        """Take up what a run had logged."""
        for name, kept in state.items():
            metric = self._module.get_submodule(kept["attribute"]) if kept.get("attribute") else None
            slot = self._slots[phase, name] = Slot.from_state(kept, self._device, metric)
            slot.mark = marked(name, slot)
        for name, value in (functions or {}).items():
            self._functions[phase, name] = torch.as_tensor(value)

    def load_metrics(self, metrics: Mapping[str, torch.Tensor], names: Mapping[str, list[str]]) -> None:
        """Take up the reduced values, and what is said of their names."""
        self._metrics = dict(metrics)
        self._bar |= {*names.get("bar", ())}
        self._unlogged |= {*names.get("unlogged", ())}

    def names_state(self) -> dict[str, list[str]]:
        """Return which names are for the bar, and which not for loggers."""
        return {"bar": sorted(self._bar), "unlogged": sorted(self._unlogged)}

    def _agreed(self, here: Mapping[Key, Slot], phases: Mapping[Phase, Part]) -> dict[Key, Agreed]:
        """Return all names with their options, in order, once all ranks that ran a phase have the same."""
        mine = {key: Agreed(slot.said, slot.on_step, slot.attribute) for key, slot in here.items()}
        if self._world_size == 1:
            return mine
        plain = [(*key, agreed, here[key].mark) for key, agreed in mine.items()]
        everybody = self._collectives.all_gather_object(([phases[phase].ran for phase in phases], plain))
        for index, phase in enumerate(phases):
            marks = {
                rank: [row[3] for row in rows if row[0] == phase and _is_shared(row[2].said)]
                for rank, (ran, rows) in enumerate(everybody)
                if ran[index]
            }
            if any(found != next(iter(marks.values())) for found in marks.values()):
                ways = self._collectives.all_gather_object(self._ways([phase])[phase])
                raise disagree(marks, ways, "this epoch")
        union = {(row[0], row[1]): row[2] for _, rows in everybody for row in rows}
        return dict(sorted(union.items(), key=lambda pair: pair[0]))


def _is_shared(said: LogOptions) -> bool:
    return said.sync_dist and not said.rank_zero_only


def _is_known(said: LogOptions) -> bool:
    """Whether its operations are there: not where a checkpoint has functions' names, and nothing more."""
    return all(fx is None or fx in NAMES or callable(fx) for fx in (said.reduce_fx, said.rank_fx))


def _step_entry(slot: Slot) -> Entry:
    fx = slot.fx if slot.said.rank_fx is None else read_fx("rank_fx", slot.said.rank_fx)
    if not slot.latest_weight:
        return Entry(fx, None)  # a stand-in's value is nobody's
    weight = slot.latest_weight if fx == "mean" and slot.metric is None else 1.0
    return Entry(fx, torch.as_tensor(slot.latest).double() * weight if fx == "mean" else slot.latest, weight)


def _epoch_entry(slot: Slot | None, said: LogOptions) -> Entry:
    fx = read_fx("reduce_fx", said.reduce_fx)
    if said.rank_fx is None:
        return Entry(fx, None, 0.0) if slot is None else Entry(fx, *slot.partial())
    total = None if slot is None or slot.partial()[0] is None else slot.value()
    return Entry(read_fx("rank_fx", said.rank_fx), total)


def _of_this_step(name: str, metric: Any) -> torch.Tensor:
    """Return a torchmetrics object's value of this batch, which its forward has left."""
    value = getattr(metric, "_forward_cache", None)
    if value is None:
        raise ModuleError(
            "module.log-value",
            f"self.log({name!r}, ..., on_step=True) got a {type(metric).__name__} without this step's value",
            values={"name": name, "metric": type(metric).__name__},
            because="a metric has a value of one step when it was called, not when it was updated",
            hint=f"call it: self.{name}(predictions, target), or log it with on_step=False, on_epoch=True",
        )
    return torch.as_tensor(value).detach()


def _names(name: str, kind: str, *, is_both: bool) -> list[str]:
    return [f"{name}_{kind}", name] if is_both else [name]
