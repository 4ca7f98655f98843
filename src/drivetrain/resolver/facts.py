"""What accelerators, strategies, precisions, launchers and environments declare about themselves.

Facts are data, without torch, so that the resolver can reason about a machine that it does not
run on. Each kind of thing names the class that does the work as ``runtime="package.module:Class"``;
only build.py imports it. A set of names that is None means "no restriction from my side": two
parts fit when neither excludes the other, so a third-party part needs no edit of ours.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from drivetrain.flags.calls import Value

Names: TypeAlias = "frozenset[str] | None"

AXES = ("pp", "dp_replicate", "dp_shard", "cp", "tp", "ep")
"""Mesh axes from the outermost to the innermost; neighbours in the innermost talk the most."""


@dataclass(frozen=True)
class AcceleratorFacts:
    """A kind of hardware."""

    name: str
    title: str = ""
    preference: int = 0
    """``auto`` takes the accelerator with the highest preference among those that can do the job."""
    is_gpu: bool = False
    """Whether ``accelerator="gpu"`` may mean this one."""
    counts_processes: bool = False
    """Whether ``devices`` is a number of processes (CPU), not of things that can be counted or picked."""
    whole_or_one: bool = False
    """Whether a node's devices are used one or all, nothing between (TPU)."""
    most: int | None = None
    """The most devices that one node can use."""
    strategies: Names = None
    precisions: Names = None
    default_strategy: str = "ddp"
    """What ``strategy="auto"`` becomes for more than one device."""
    process_group_backend: str = "gloo"
    count: Callable[[], int] | None = None
    """Counts this machine's devices; needed from third parties only, probe.py counts ours."""
    runtime: str = ""


@dataclass(frozen=True)
class Option:
    """One option of a strategy: ``ddp(bucket_cap_mb=50)``."""

    default: Value
    doc: str
    kinds: tuple[type, ...] = (bool,)
    choices: tuple[Value, ...] = ()
    least: float | None = None


@dataclass(frozen=True)
class StrategyFacts:
    """A parallel algorithm."""

    name: str
    title: str = ""
    axes: tuple[str, ...] = ()
    """The mesh axes that it fills; empty for one device only."""
    role: Literal["alone", "data", "model"] = "alone"
    """How it composes: not at all, as the data-parallel part, or as a model-parallel part."""
    options: Mapping[str, Option] = field(default_factory=dict)
    layout: Callable[[Mapping[str, Any], int], Mapping[str, int | None]] | None = None
    """From the options and num_nodes to the size of each axis, None for what the others leave;
    by default the first axis has the option ``size``."""
    accelerators: Names = None
    precisions: Names = None
    launchers: Names = None
    environments: Names = None
    packages: tuple[str, ...] = ()
    """Distributions that it needs beside torch."""
    has_layer_sync: bool = False
    """Whether batch norm can be synchronised over its ranks."""
    checkpoint_io: str = "local"
    runtime: str = ""


@dataclass(frozen=True)
class PrecisionFacts:
    """A number format."""

    name: str
    title: str = ""
    aliases: tuple[str, ...] = ()
    accelerators: Names = None
    strategies: Names = None
    packages: tuple[str, ...] = ()
    runtime: str = ""


@dataclass(frozen=True)
class LauncherFacts:
    """A way in which worker processes start."""

    name: str
    title: str = ""
    starts_processes: bool = True
    """Whether we start the other ranks; False: there are none, or somebody else started them."""
    needs_fork: bool = False
    accelerators: Names = None
    runtime: str = ""


@dataclass(frozen=True)
class EnvironmentFacts:
    """Who manages the cluster, and which variables tell a process its place.

    A dialect maps roles to variables: ``rank`` and ``world_size`` always, ``local_rank``,
    ``node_rank``, ``local_world_size``, ``num_nodes``, ``main_address`` and ``main_port`` where there
    are such variables; a role that ends in ``?`` may be missing. An environment counts only with one
    dialect complete; a partial set means nothing.
    """

    name: str
    title: str = ""
    preference: int = 0
    """Of several complete environments the highest wins: torchrun inside SLURM is torchrun."""
    dialects: tuple[Mapping[str, str], ...] = ()
    also: tuple[str, ...] = ()
    """Variables that must be there too."""
    absent: tuple[str, ...] = ()
    """Variables that must not be there."""
    unless: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Values that say that nobody started this process as a rank: an interactive shell."""
    started: str = ""
    """Variable with the number of processes started together; above 1 they are ranks in spite of `unless`."""
    accelerators: Names = None
    runtime: str = ""


@dataclass(frozen=True)
class CheckpointIOFacts:
    """A way to write and read checkpoints."""

    name: str
    title: str = ""
    runtime: str = ""


@dataclass(frozen=True)
class LayerSyncFacts:
    """A way to make layers (batch norm) see all ranks."""

    name: str
    title: str = ""
    runtime: str = ""


Facts: TypeAlias = (
    "AcceleratorFacts | StrategyFacts | PrecisionFacts | LauncherFacts | EnvironmentFacts"
    " | CheckpointIOFacts | LayerSyncFacts"
)
