"""Throughput: rates over the last batches."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, final

from drivetrain.callbacks.refusal import bad_argument

_FIELDS = ("time", "batches", "samples", "lengths", "flops")


@final
class Throughput:
    """Rates of one device over a window of batches, and of all devices as if they did the same.

    Tell it after each batch, with `update`, how much there has been in all; `compute` divides what is
    within the last ``window_size`` batches by the time that they took. The first batch, in which much is
    set up, only starts the window.

    Units:
        available_flops: operations a second that the device is promised to do.
        time: seconds.
    Raises:
        ModuleError [callback.bad-argument]: an argument has a value that it cannot have.
    """

    def __init__(
        self,
        available_flops: float | None = None,
        world_size: int = 1,
        window_size: int = 100,
        separator: str = "/",
    ) -> None:
        if available_flops is not None and not available_flops > 0:
            because = "operations a second, more than 0"
            raise bad_argument(self, "available_flops", available_flops, because)
        for name, value, least in (("world_size", world_size, 1), ("window_size", window_size, 2)):
            if type(value) is not int or value < least:
                raise bad_argument(self, name, value, f"an int of {least} or more")
        if not isinstance(separator, str):
            raise bad_argument(self, "separator", separator, "a text between the parts of a name")
        self.available_flops, self.world_size, self.separator = available_flops, world_size, separator
        self._window: deque[tuple[float, int, int, int | None, float]] = deque(maxlen=window_size)
        """Time, batches, samples, lengths so far; operations since the entry before."""

    def update(
        self,
        *,
        time: float,
        batches: int,
        samples: int,
        lengths: int | None = None,
        flops: float | None = None,
    ) -> None:
        """Note what there has been so far; ``lengths`` are items such as tokens.

        ``flops`` alone are those since the last call, of all devices.

        Raises:
            ModuleError [callback.bad-argument]: something became less, or lengths came only sometimes.
        """
        last = self._window[-1] if self._window else None
        if last is not None:
            given = {"time": time, "batches": batches, "samples": samples, "lengths": lengths}
            for (name, value), before in zip(given.items(), last, strict=False):
                if (value is None) != (before is None):
                    raise bad_argument("Throughput.update", name, value, "given each time, or never")
                if value is not None and before is not None and value < before:
                    because = f"what there has been in all: at least {before}, as before"
                    raise bad_argument("Throughput.update", name, value, because)
        self._window.append((time, batches, samples, lengths, flops or 0.0))

    def compute(self) -> dict[str, float]:
        """Return what there has been, and the rates of the window once it holds two batches."""
        if not self._window:
            return {}
        time, batches, samples, lengths, _ = self._window[-1]
        found: dict[str, float] = {"time": time, "batches": batches, "samples": samples}
        if lengths is not None:
            found["lengths"] = lengths
        rates = self.rates()
        found |= {f"device{self.separator}{name}": value for name, value in rates.items()}
        if self.available_flops is not None and "flops_per_sec" in rates:
            found[f"device{self.separator}mfu"] = rates["flops_per_sec"] / self.available_flops
        if self.world_size > 1:
            found |= {name: value * self.world_size for name, value in rates.items()}
        return found

    def rates(self) -> dict[str, float]:
        """Return this device's rates by name; empty before the window holds two batches that differ in time.

        Units:
            returns: a second.
        """
        if len(self._window) < 2:  # noqa: PLR2004 - one before and one after
            return {}
        first, last = self._window[0], self._window[-1]
        elapsed_s = last[0] - first[0]
        if elapsed_s <= 0:
            return {}
        found = {
            "batches_per_sec": (last[1] - first[1]) / elapsed_s,
            "samples_per_sec": (last[2] - first[2]) / elapsed_s,
        }
        if last[3] is not None and first[3] is not None:
            found["items_per_sec"] = (last[3] - first[3]) / elapsed_s
        flops = sum(entry[4] for entry in self._window) - first[4]
        if flops:
            found["flops_per_sec"] = flops / self.world_size / elapsed_s
        return found

    def reset(self) -> None:
        """Begin anew."""
        self._window.clear()

    def state_dict(self) -> dict[str, Any]:
        """Return the window as plain data."""
        return {"window": [dict(zip(_FIELDS, entry, strict=True)) for entry in self._window]}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take up what `state_dict` returned."""
        self._window.clear()
        for entry in state_dict["window"]:
            time, batches, samples, lengths, flops = (entry[name] for name in _FIELDS)
            self._window.append((time, batches, samples, lengths, flops))
