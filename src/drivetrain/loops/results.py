"""Logged values of a run: kept as they come, reduced over steps and ranks when they are due."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, final

import torch

from drivetrain.base.errors import CollectiveError, ModuleError
from drivetrain.base.text import listed
from drivetrain.collectives.collectives import Collectives
from drivetrain.data.seeds import mix
from drivetrain.loops.slots import Slot, checked
from drivetrain.modules.run import LogOptions

Phase = tuple[str, int]
"""A part of a run whose values belong together: (``train step``, 0), (``validation``, loader number)."""

TRAIN_STEP: Phase = ("train step", 0)
TRAIN_EPOCH: Phase = ("train epoch", 0)


class Part(NamedTuple):
    """What a phase that is being reduced needs to be told."""

    suffix: str = ""
    """What its names end in, to tell loaders apart."""
    ran: bool = True
    """Whether this rank had batches; one without has no names to compare."""


@final
class Results:
    """Takes what is logged on this rank; every reduction is one bundle of all names, in order.

    Over ranks, a step's values are reduced at the steps that `reduce_step` is called for, an epoch's
    once at its end. Before a bundle is reduced the ranks compare which names they have.
    """

    def __init__(self, collectives: Collectives, device: torch.device) -> None:
        self._collectives, self._device = collectives, device
        self._world_size = collectives.world_size
        self._bar: set[str] = set()
        self._slots: dict[tuple[Phase, str], Slot] = {}
        self._phase: Phase = TRAIN_STEP
        self._in_step = True
        self._size = 1
        self._step = 0
        self._metrics: dict[str, torch.Tensor] = {}

    def enter(self, phase: Phase, *, in_step: bool = False) -> None:
        """Say where the run is: what is logged from now on belongs there."""
        self._phase, self._in_step, self._size = phase, in_step, 1
        if in_step and self._world_size == 1:
            # From here on the newest value of a name that is kept both ways is a step's again.
            for (_, name), slot in self._slots.items():
                if slot.on_step and slot.on_epoch:
                    self._metrics.pop(name, None)

    def clear(self) -> None:
        """Forget everything: what a check before the fit logged."""
        self._slots.clear()
        self._metrics.clear()
        self._bar.clear()

    def at_batch(self, step: int, size: int) -> None:
        """Say how many samples the batch has that steps log about; 0 for a stand-in."""
        self._step, self._size = step, size

    def log(self, name: str, value: Any, options: LogOptions) -> None:
        """Keep a value."""
        key = (self._phase, name)
        slot = self._slots.get(key)
        if slot is None:
            slot = self._slots[key] = self._opened(options)
        elif slot.said[:4] != options[:4]:
            raise _changed(name, slot.said, options)
        weight = options.batch_size if options.batch_size is not None and self._size else self._size
        slot.latest, slot.latest_weight, slot.step = checked(name, value), weight, self._step
        if slot.on_epoch and weight:
            slot.add(slot.latest, weight)

    def _opened(self, said: LogOptions) -> Slot:
        is_train_step = self._in_step and self._phase == TRAIN_STEP
        on_step = is_train_step if said.on_step is None else said.on_step
        on_epoch = not is_train_step if said.on_epoch is None else said.on_epoch
        return Slot(said, on_step=on_step, on_epoch=on_epoch)

    def reduce_step(self) -> None:
        """Make the values of this step those of all ranks.

        Collectives:
            with several ranks, an all_reduce of 16 bytes and one of 16 bytes a name; every rank must call.
        """
        if self._world_size == 1:
            return
        found = {
            name: slot
            for (phase, name), slot in sorted(self._slots.items())
            if phase == TRAIN_STEP and slot.on_step and slot.step == self._step
        }
        word = mix(*"\n".join(found).encode()) >> 1
        pair = torch.tensor([word, -word], dtype=torch.int64, device=self._device)
        low = self._collectives.all_reduce(pair, "max").tolist()
        if low[0] != -low[1]:
            self._compare([*found], "this step")
        if not found:
            return
        bundle = [
            torch.as_tensor(one.latest, dtype=torch.float64, device=self._device) * one.latest_weight
            if one.latest_weight
            else self._zero()
            for one in found.values()
        ]
        weights = torch.tensor(
            [one.latest_weight for one in found.values()], dtype=torch.float64, device=self._device
        )
        sums = self._collectives.all_reduce(torch.cat([torch.stack(bundle), weights]), "sum")
        means = sums[: len(bundle)] / sums[len(bundle) :]
        for name, mean in zip(found, means.unbind(), strict=True):
            self._metrics |= dict.fromkeys(_names(name, "step", is_both=found[name].on_epoch), mean)

    def reduce_epoch(
        self, phases: Mapping[Phase, Part], *, keep: bool = False
    ) -> dict[Phase, dict[str, torch.Tensor]]:
        """Return each phase's epoch values over all ranks, on the CPU, and begin its sums anew.

        With ``keep`` the sums go on: the epoch is not over, the run only stops in it.

        Collectives:
            with several ranks, their names, and one all_reduce of 16 bytes a name; every rank must call.

        Raises:
            CollectiveError [loop.logged-keys]: ranks that had batches logged different names.
        """
        here = {key: slot for key, slot in sorted(self._slots.items()) if key[0] in phases and slot.on_epoch}
        keys = self._agreed(here, phases)
        found: dict[Phase, dict[str, torch.Tensor]] = {phase: {} for phase in phases}
        for key, mean in zip(keys, self._means([here.get(key) for key in keys]), strict=True):
            phase, name = key
            said, is_on_step = keys[key]
            suffix = phases[phase].suffix if said[3] else ""
            for known in _names(name, "epoch", is_both=is_on_step):
                found[phase][known + suffix] = mean
            self._bar |= {name + suffix} if said[0] else set()
        for values in found.values():
            self._metrics |= values
        if not keep:
            self._forget(list(phases))
        return found

    def _means(self, slots: list[Slot | None]) -> list[torch.Tensor]:
        if not slots:
            return []
        pairs = [(0.0, 0.0) if slot is None else slot.sums() for slot in slots]
        sums = torch.stack(
            [torch.as_tensor(total, dtype=torch.float64, device=self._device) for total, _ in pairs]
        )
        weights = torch.tensor([weight for _, weight in pairs], dtype=torch.float64, device=self._device)
        both = torch.cat([sums, weights])
        if self._world_size > 1:
            both = self._collectives.all_reduce(both, "sum")
        return list((both[: len(slots)] / both[len(slots) :]).cpu().unbind())

    def _forget(self, phases: list[Phase]) -> None:
        for key in [key for key in self._slots if key[0] in phases]:
            slot = self._slots[key]
            if slot.on_step:
                slot.reset()
            else:
                del self._slots[key]

    def metrics(self) -> dict[str, torch.Tensor]:
        """Return the newest value of each name, over all ranks as far as they were reduced."""
        return {**self._latest(), **self._metrics} if self._world_size == 1 else dict(self._metrics)

    def progress_bar(self) -> dict[str, torch.Tensor]:
        """Return the newest value of each name that is for the bar: this rank's own for a step's."""
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

    def _latest(self) -> dict[str, torch.Tensor]:
        found: dict[str, torch.Tensor] = {}
        for (_, name), slot in self._slots.items():
            if slot.on_step and slot.latest is not None:
                found |= dict.fromkeys(
                    _names(name, "step", is_both=slot.on_epoch), torch.as_tensor(slot.latest)
                )
        return found

    def state_dict(self) -> dict[str, Any]:
        """Return this rank's part of a training epoch that is going on."""
        return {name: slot.state_dict() for (phase, name), slot in self._slots.items() if phase == TRAIN_STEP}

    def metrics_state(self) -> dict[str, torch.Tensor]:
        """Return the reduced values."""
        return {name: value.detach().cpu() for name, value in self._metrics.items()}

    def load_state_dict(self, state: dict[str, Any], metrics: dict[str, torch.Tensor]) -> None:
        """Take up what a run had logged."""
        for name, kept in state.items():
            self._slots[TRAIN_STEP, name] = Slot.from_state(kept, self._device)
        self._metrics = dict(metrics)

    def _zero(self) -> torch.Tensor:
        return torch.zeros((), dtype=torch.float64, device=self._device)

    def _agreed(
        self, here: Mapping[tuple[Phase, str], Slot], phases: Mapping[Phase, Part]
    ) -> dict[tuple[Phase, str], tuple[LogOptions, bool]]:
        """Return all names with their options, in order, once all ranks that ran a phase have the same."""
        mine = {key: (slot.said, slot.on_step) for key, slot in here.items()}
        if self._world_size == 1:
            return mine
        plain = [(phase, name, said, on_step) for (phase, name), (said, on_step) in mine.items()]
        everybody = self._collectives.all_gather_object(([phases[phase].ran for phase in phases], plain))
        for index, phase in enumerate(phases):
            names = {
                rank: [row[1] for row in rows if row[0] == phase]
                for rank, (ran, rows) in enumerate(everybody)
                if ran[index]
            }
            if any(found != next(iter(names.values())) for found in names.values()):
                raise _disagree(names, "this epoch")
        union = {(row[0], row[1]): (row[2], row[3]) for _, rows in everybody for row in rows}
        return dict(sorted(union.items(), key=lambda pair: pair[0]))

    def _compare(self, names: list[str], when: str) -> None:
        everybody = self._collectives.all_gather_object(names)
        raise _disagree(dict(enumerate(everybody)), when)


def _names(name: str, kind: str, *, is_both: bool) -> list[str]:
    return [f"{name}_{kind}", name] if is_both else [name]


def _changed(name: str, before: LogOptions, now: LogOptions) -> ModuleError:
    changes = {
        field: (old, new)
        for field, old, new in zip(now._fields, before, now, strict=True)
        if old != new and field != "batch_size"
    }
    return ModuleError(
        "module.log-options",
        f"self.log({name!r}, ...) with other options than before",
        values={field: f"{new!r}, before {old!r}" for field, (old, new) in changes.items()},
        because="one name is kept in one way throughout an epoch",
        hint="use the same options, or another name",
    )


def _disagree(names: dict[int, list[str]], when: str) -> CollectiveError:
    union = sorted({name for some in names.values() for name in some})
    lacking = {name: [rank for rank, some in names.items() if name not in some] for name in union}
    missing = {name: ranks for name, ranks in lacking.items() if ranks}
    first = next(iter(missing.items()))
    return CollectiveError(
        "loop.logged-keys",
        f"rank {listed(first[1])} did not log {first[0]!r} in {when}, other ranks did",
        values={name: f"missing on rank {listed(ranks)}" for name, ranks in missing.items()},
        because="a logged value is one over all ranks, so every rank logs the same names",
        hint="call self.log on every rank, without an `if` on the rank or on what the batch holds",
    )
