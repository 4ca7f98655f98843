"""Whether this process is rank 0, before a run says so."""

from __future__ import annotations

from drivetrain.machine import probe
from drivetrain.resolver.catalogue import shipped
from drivetrain.resolver.ranks import dialect_of, read_ranks


def is_rank_zero() -> bool:
    """Whether the variables of torchrun, SLURM, MPI and others make this process rank 0.

    Under them every rank runs the script, and may use a logger before any Trainer is there. Where no
    set of variables is complete, this process is the caller, which is rank 0.
    """
    variables = probe.variables()
    for facts in shipped().environment_order:
        if dialect_of(facts, variables) is not None:
            try:
                return read_ranks(facts, variables).is_zero
            except ValueError:
                return True  # the Trainer refuses such variables, and says which
    return True
