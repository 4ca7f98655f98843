"""Machine: frozen facts about one machine, probed here or built by hand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from drivetrain.base.errors import Conflict, PlanError
from drivetrain.base.origin import Origin, Sourced
from drivetrain.base.text import show
from drivetrain.machine import probe

_NO_KINDS = {
    "gpu": "gpu is whichever kind of GPU is there: say which, such as cuda=8",
    "cpu": "a CPU is always there, and its processes are as many as devices= asks for",
}
_MOST_DEVICES = 65_536


@dataclass(frozen=True, init=False)
class Machine:
    """What one machine (node) has: devices by kind, environment variables, notebook or not.

    ``Machine(cuda=8)`` pretends a machine with eight CUDA devices; ``Machine.probe()`` reads this
    one. Nothing in the library looks at the hardware or at ``os.environ`` anywhere else.

    Units:
        memory_bytes: bytes of each device, by kind, in the order of the device indices.

    Raises:
        PlanError [machine.bad-value]: a count is not an int of 0 or more, a variable is no text.
    """

    devices: Mapping[str, int]
    """Number of devices of each kind: ``{"cuda": 8}``. CPU is always there and not counted."""
    variables: Mapping[str, str] = field(repr=False)
    """Environment variables; kept out of ``repr``, since they may hold secrets."""
    notebook: bool
    """Whether this process is a Jupyter kernel."""
    fork: bool
    """Whether the operating system can fork a process."""
    touched: frozenset[str]
    """Kinds of devices that this process has already initialised; a fork would break them."""
    num_cpus: int
    """CPU cores that this process may use."""
    memory_bytes: Mapping[str, tuple[int, ...]]
    """Memory of each device by kind; ``"cpu"`` holds the machine's own."""
    platform: str
    """Operating system and processor, for example ``linux x86_64``."""

    def __init__(
        self,
        devices: Mapping[str, int] | None = None,
        variables: Mapping[str, str] | None = None,
        *,
        notebook: bool = False,
        fork: bool = True,
        touched: Iterable[str] = (),
        num_cpus: int = 1,
        memory_bytes: Mapping[str, tuple[int, ...]] | None = None,
        platform: str = "",
        **counts: int,
    ) -> None:
        kinds, texts = _counts(devices, counts), _texts(variables)
        for name, flag in (("notebook", notebook), ("fork", fork)):
            if not isinstance(flag, bool):
                raise _bad(name, flag, f"{name} is True or False")
        if type(num_cpus) is not int or num_cpus < 1:
            raise _bad("num_cpus", num_cpus, "num_cpus is an int of 1 or more")
        if type(platform) is not str:
            raise _bad("platform", platform, "platform is a text")
        facts = {
            "devices": MappingProxyType(kinds),
            "variables": MappingProxyType(texts),
            "notebook": notebook,
            "fork": fork,
            "touched": _kinds(touched),
            "num_cpus": num_cpus,
            "memory_bytes": MappingProxyType(_memory(memory_bytes)),
            "platform": platform,
        }
        for fact, value in facts.items():
            object.__setattr__(self, fact, value)

    @classmethod
    def probe(cls) -> Machine:
        """Read this machine: its devices (which imports torch), its variables, its platform."""
        return cls(**probe.read())

    def count(self, kind: str) -> int:
        """Return how many devices of this kind there are; 0 for a kind that is not listed."""
        return self.devices.get(kind, 0)

    def with_devices(self, counts: Mapping[str, int]) -> Machine:
        """Return the same machine with these counts of devices added or replaced."""
        return replace_devices(self, counts)

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle as plain data: mapping proxies do not pickle."""
        return _rebuild, (
            dict(self.devices),
            dict(self.variables),
            {
                "notebook": self.notebook,
                "fork": self.fork,
                "touched": self.touched,
                "num_cpus": self.num_cpus,
                "memory_bytes": dict(self.memory_bytes),
                "platform": self.platform,
            },
        )

    def __hash__(self) -> int:
        """Hash by what two equal machines share."""
        return hash((tuple(sorted(self.devices.items())), self.notebook, self.fork, self.platform))


def replace_devices(machine: Machine, counts: Mapping[str, int]) -> Machine:
    """Return a copy of the machine with other counts."""
    return Machine(
        {**machine.devices, **counts},
        machine.variables,
        notebook=machine.notebook,
        fork=machine.fork,
        touched=machine.touched,
        num_cpus=machine.num_cpus,
        memory_bytes=machine.memory_bytes,
        platform=machine.platform,
    )


def _rebuild(devices: dict[str, int], variables: dict[str, str], rest: dict[str, object]) -> Machine:
    return Machine(devices, variables, **rest)  # type: ignore[arg-type]  # what __reduce__ took apart


def _mapping(name: str, value: object) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise _bad(name, value, f"{name} is a mapping such as {{'cuda': 8}}")
    return dict(value)


def _counts(devices: object, counts: Mapping[str, int]) -> dict[str, int]:
    kinds: dict[str, int] = _mapping("devices", devices)
    if twice := sorted(kinds.keys() & counts.keys()):
        raise _bad(twice[0], counts[twice[0]], f"devices says {kinds[twice[0]]} already")
    kinds |= counts
    for kind, count in kinds.items():
        if type(count) is not int or not 0 <= count <= _MOST_DEVICES or type(kind) is not str:
            raise _bad("devices", {kind: count}, f"each count is an int from 0 to {_MOST_DEVICES}")
        if kind in _NO_KINDS or kind != kind.lower():
            raise _bad("devices", {kind: count}, _NO_KINDS.get(kind, "kinds are in lower case: cuda"))
    return kinds


def _texts(variables: object) -> dict[str, str]:
    texts: dict[str, str] = _mapping("variables", variables)
    for name, text in texts.items():
        if type(name) is not str or type(text) is not str:
            raise _bad("variables", {name: text}, "environment variables are texts")
    return texts


def _kinds(value: object) -> frozenset[str]:
    found = [value] if isinstance(value, str) else value
    if not isinstance(found, (list, tuple, set, frozenset)) or not all(type(one) is str for one in found):
        raise _bad("touched", value, "touched is a list of kinds of devices: ['cuda']")
    return frozenset(found)


def _memory(value: object) -> dict[str, tuple[int, ...]]:
    found = _mapping("memory_bytes", value)
    for kind, sizes in found.items():
        is_row = isinstance(sizes, (list, tuple)) and all(type(size) is int and size >= 0 for size in sizes)
        if type(kind) is not str or not is_row:
            raise _bad(
                "memory_bytes", value, "memory_bytes has the bytes of each device by kind: {'cuda': (80,)}"
            )
    return {kind: tuple(sizes) for kind, sizes in found.items()}


def _bad(name: str, value: object, because: str) -> PlanError:
    source = Sourced(value, Origin.ARGUMENT, f"Machine({name}=...)")
    return PlanError(
        (
            Conflict(
                "machine.bad-value", f"a machine cannot have {name}={show(value)}", {name: source}, because
            ),
        )
    )
