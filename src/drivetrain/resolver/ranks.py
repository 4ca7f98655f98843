"""The place of one process in a run, and how it is read from an environment's variables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from drivetrain.resolver.facts import EnvironmentFacts


@dataclass(frozen=True)
class Ranks:
    """Where this process stands: all numbers start at 0, sizes at 1."""

    rank: int = 0
    local_rank: int = 0
    node_rank: int = 0
    world_size: int = 1
    local_world_size: int = 1
    num_nodes: int = 1

    @property
    def is_zero(self) -> bool:
        """Whether this process speaks and writes for all."""
        return self.rank == 0


def dialect_of(facts: EnvironmentFacts, variables: Mapping[str, str]) -> Mapping[str, str] | None:
    """Return the dialect whose variables are all there, or None: a partial set means nothing."""
    is_shell = any(variables.get(name) in values for name, values in facts.unless.items())
    if is_shell and variables.get(facts.started, "1") == "1":
        return None
    if not all(name in variables for name in facts.also) or any(name in variables for name in facts.absent):
        return None
    for dialect in facts.dialects:
        if all(name in variables for name in _needed(dialect)):
            return {role.rstrip("?"): name for role, name in dialect.items() if name in variables}
    return None


def missing(facts: EnvironmentFacts, variables: Mapping[str, str]) -> list[str]:
    """Return the variables that the first dialect lacks, for the error that names them."""
    needed = _needed(facts.dialects[0]) if facts.dialects else []
    return [name for name in (*needed, *facts.also) if name not in variables]


def _needed(dialect: Mapping[str, str]) -> list[str]:
    return [name for role, name in dialect.items() if not role.endswith("?")]


def read_ranks(facts: EnvironmentFacts, variables: Mapping[str, str]) -> Ranks:
    """Read this process's place from a complete set of variables.

    Raises:
        ValueError: a variable holds no number, or the numbers cannot belong together.
    """
    dialect = dialect_of(facts, variables)
    if dialect is None:
        message = f"the variables of {facts.name} are not complete: {', '.join(missing(facts, variables))}"
        raise ValueError(message)
    found = {role: _number(name, variables[name]) for role, name in dialect.items() if role != "main_address"}
    rank, world_size = found["rank"], found["world_size"]
    num_nodes = found.get("num_nodes")
    local_world_size = found.get("local_world_size")
    if local_world_size is None:
        local_world_size = (
            world_size // num_nodes if num_nodes else (1 if "local_rank" not in found else world_size)
        )
    if num_nodes is None:
        num_nodes = max(world_size // max(local_world_size, 1), 1)
    local_rank = found.get("local_rank", 0)
    node_rank = found.get("node_rank", rank // max(local_world_size, 1))
    ranks = Ranks(rank, local_rank, node_rank, world_size, local_world_size, num_nodes)
    is_local = local_rank < (local_world_size if "local_world_size" in found else world_size)
    is_node = num_nodes >= 1 and (node_rank < num_nodes or "node_rank" not in found)
    if not (rank < world_size and is_local and is_node and 1 <= local_world_size <= world_size):
        message = f"the variables of {facts.name} contradict each other: {ranks}"
        raise ValueError(message)
    return ranks


_MOST_DIGITS = 9


def _number(name: str, text: str) -> int:
    if not (text.strip().isdecimal() and len(text) <= _MOST_DIGITS):
        message = f"{name}={text!r} is not a number"
        raise ValueError(message)
    return int(text)
