"""Logged values of a run: kept as they come, reduced over steps and ranks when they are due."""

from __future__ import annotations

from typing import Any, final

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


@final
class Results:
    """Takes what is logged on this rank; every reduction is one bundle of all names, in order.

    Over ranks, a step's values are reduced at the steps that `reduce_step` is called for, an epoch's
    once at its end. Before a bundle is reduced the ranks compare which names they have.
    """

    def __init__(self, collectives: Collectives, device: torch.device) -> None:
        self._collectives, self._device = collectives, device
        self._slots: dict[tuple[Phase, str], Slot] = {}
        self._phase: Phase = TRAIN_STEP
        self._in_step = True
        self._suffix = ""
        self._size = 1
        self._step = 0
        self._metrics: dict[str, torch.Tensor] = {}

    def enter(self, phase: Phase, *, in_step: bool = False, suffix: str = "") -> None:
        """Say where the run is: what is logged from now on belongs there."""
        self._phase, self._in_step, self._suffix, self._size = phase, in_step, suffix, 1

    def at_batch(self, step: int, size: int) -> None:
        """Say how many samples the batch has that steps log about; 0 for a stand-in."""
        self._step, self._size = step, size

    def log(self, name: str, value: Any, options: LogOptions) -> None:  # noqa: ANN401 - checked
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
        if self._collectives.world_size == 1:
            return
        found = {name: slot for (phase, name), slot in sorted(self._slots.items()) if phase == TRAIN_STEP and slot.on_step and slot.step == self._step}
        word = mix(*"\n".join(found).encode()) >> 1
        pair = torch.tensor([word, -word], dtype=torch.int64, device=self._device)
        low = self._collectives.all_reduce(pair, "max").tolist()
        if low[0] != -low[1]:
            self._compare([*found], "this step")
        if not found:
            return
        bundle = [torch.as_tensor(one.latest, dtype=torch.float64, device=self._device) * one.latest_weight if one.latest_weight else self._zero() for one in found.values()]
        weights = torch.tensor([one.latest_weight for one in found.values()], dtype=torch.float64, device=self._device)
        sums = self._collectives.all_reduce(torch.cat([torch.stack(bundle), weights]), "sum")
        means = sums[: len(bundle)] / sums[len(bundle) :]
        for name, mean in zip(found, means.unbind(), strict=True):
            self._metrics |= dict.fromkeys(_names(name, found[name], "step"), mean)

    def reduce_epoch(self, phases: dict[Phase, str]) -> dict[Phase, dict[str, torch.Tensor]]:
        """Return each phase's epoch values over all ranks, on the CPU, and forget the phases' sums.

        Collectives:
            with several ranks, their names, and one all_reduce of 16 bytes a name; every rank must call.
        """
        here = {(phase, name): slot for (phase, name), slot in sorted(self._slots.items()) if phase in phases and slot.on_epoch}
        keys = self._agreed(sorted(here))
        zero = self._zero()
        pairs = [here[key].sums() if key in here else (zero, 0.0) for key in keys]
        if pairs:
            sums = torch.stack([torch.as_tensor(total, dtype=torch.float64, device=self._device) for total, _ in pairs])
            weights = torch.tensor([weight for _, weight in pairs], dtype=torch.float64, device=self._device)
            both = torch.cat([sums, weights])
            both = self._collectives.all_reduce(both, "sum") if self._collectives.world_size > 1 else both
            means = (both[: len(keys)] / both[len(keys) :]).cpu().unbind()
        found: dict[Phase, dict[str, torch.Tensor]] = {phase: {} for phase in phases}
        for index, (phase, name) in enumerate(keys):
            slot = here.get((phase, name))
            suffix = phases[phase] if slot is None or slot.said.add_dataloader_idx else ""
            for known in _names(name, slot, "epoch"):
                found[phase][known + suffix] = means[index]
        for values in found.values():
            self._metrics |= values
        self.forget(list(phases))
        return found

    def forget(self, phases: list[Phase]) -> None:
        """Begin the phases' sums anew; a new epoch may log with other options."""
        for key in [key for key in self._slots if key[0] in phases]:
            slot = self._slots[key]
            if slot.on_step:
                slot.reset()
            else:
                del self._slots[key]

    def metrics(self) -> dict[str, torch.Tensor]:
        """Return the newest value of each name, over all ranks as far as they were reduced."""
        if self._collectives.world_size > 1:
            return dict(self._metrics)
        found = {}
        for (_, name), slot in self._slots.items():
            if slot.on_step and slot.latest is not None:
                found |= dict.fromkeys(_names(name, slot, "step"), torch.as_tensor(slot.latest))
        return {**found, **self._metrics}

    def progress_bar(self) -> dict[str, torch.Tensor]:
        """Return the newest value of each name that is for the bar: this rank's own for a step's."""
        bar = {name: slot for (_, name), slot in self._slots.items() if slot.said.prog_bar}
        found = {name: torch.as_tensor(slot.latest) for name, slot in bar.items() if slot.on_step and slot.latest is not None}
        self._bar = getattr(self, "_bar", set()) | set(bar)
        return found | {name: self._metrics[name] for name in self._bar if name in self._metrics and name not in found}

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

    def close(self, collectives: Collectives) -> None:
        """Stay readable after the run: with the collectives of one rank that is left."""
        if self._collectives.world_size > 1:
            self._metrics = self.metrics_state()
        self._collectives = collectives if self._collectives.world_size == 1 else self._collectives

    def _zero(self) -> torch.Tensor:
        return torch.zeros((), dtype=torch.float64, device=self._device)

    def _agreed(self, keys: list[tuple[Phase, str]]) -> list[tuple[Phase, str]]:
        if self._collectives.world_size == 1:
            return keys
        everybody = self._collectives.all_gather_object(keys)
        if all(one == keys or not one for one in everybody):
            return max(everybody, key=len)
        raise _disagree({rank: [name for _, name in one] for rank, one in enumerate(everybody) if one}, "this epoch")

    def _compare(self, names: list[str], when: str) -> None:
        everybody = self._collectives.all_gather_object(names)
        raise _disagree(dict(enumerate(everybody)), when)


def _names(name: str, slot: Slot | None, kind: str) -> list[str]:
    if slot is not None and slot.on_step and slot.on_epoch:
        return [f"{name}_{kind}", name]
    return [name]


def _changed(name: str, before: LogOptions, now: LogOptions) -> ModuleError:
    changes = {field: (old, new) for field, old, new in zip(now._fields, before, now, strict=True) if old != new and field != "batch_size"}
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
        "loops.logged-keys",
        f"rank {listed(first[1])} did not log {first[0]!r} in {when}, other ranks did",
        values={name: f"missing on rank {listed(ranks)}" for name, ranks in missing.items()},
        because="a logged value is one over all ranks, so every rank logs the same names",
        hint="call self.log on every rank, without an `if` on the rank or on what the batch holds",
    )
