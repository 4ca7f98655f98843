"""The mesh of a run's ranks, for torch's tensors in parts."""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping

import torch
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

_RUNS = itertools.count(1)


def make_mesh(device: torch.device, sizes: Mapping[str, int]) -> DeviceMesh:
    """Return the mesh of all ranks, of which each axis has its name, the outermost first.

    torch keeps what it has worked out for a mesh (which rows are a rank's, where a result lies) under what
    the mesh looks like, as long as the process lives. A process that is forked after a run would take its
    parent's answers, of another rank, for its own, and a later run those of groups that are gone. So each
    mesh looks like no other.

    Collectives:
        those that make process groups of the axes; every rank must call.
    """
    mesh = init_device_mesh(device.type, tuple(sizes.values()), mesh_dim_names=tuple(sizes))
    # What tells two meshes of equal form apart; torch sets it where threads play ranks.
    mesh._thread_id = (os.getpid() << 24) + next(_RUNS)  # noqa: SLF001 - no public way
    mesh._hash = None  # noqa: SLF001 - as above
    return mesh
