"""Functions that code for Lightning imports beside its classes."""

from __future__ import annotations

import contextlib
import os
import pickle
import random
import socket
import sys
import tempfile
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import IterableDataset

from drivetrain.accelerators.memory import is_out_of_memory
from drivetrain.base.tree import leaves, map_leaves
from drivetrain.compat.known_errors import PossibleUserWarning
from drivetrain.compat.rank_zero import rank_zero_info, rank_zero_only
from drivetrain.data.seeds import seed_everything as seed_all
from drivetrain.events import is_unused
from drivetrain.machine import probe
from drivetrain.machine.snapshot import Machine

_SEED = "PL_GLOBAL_SEED"
_SEEDS: list[int] = []


def last_seed() -> int:
    """Return the seed that `seed_everything` was given last, else 0."""
    return _SEEDS[-1] if _SEEDS else 0


def seed_everything(seed: int | None = None, workers: bool = False, verbose: bool = True) -> int:  # noqa: ARG001 - workers always follow from the seed
    """Seed python's, torch's and numpy's generators, and the order of the data; return the seed.

    None takes the variable ``PL_GLOBAL_SEED``, else 0.
    """
    found = int(probe.variables().get(_SEED, 0)) if seed is None else int(seed)
    _SEEDS[:] = [seed_all(found)]
    if verbose:
        rank_zero_info(f"seed {found}")
    return found


def reset_seed() -> None:
    """Seed again with the last seed; without one, do nothing."""
    if _SEEDS:
        seed_all(_SEEDS[-1])


def pl_worker_init_function(worker_id: int, rank: int | None = None) -> None:
    """Seed a loader's worker by its number and rank."""
    base = torch.initial_seed() - worker_id
    words = torch.Generator().manual_seed((base + worker_id * 7919 + (rank or 0) * 104729) % 2**63)
    number = int(torch.randint(2**32, (), generator=words))
    torch.manual_seed(number)
    random.seed(number)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(number)


@contextmanager
def isolate_rng(include_cuda: bool = True) -> Iterator[None]:
    """Run a block and leave every random state as it was."""
    numpy = sys.modules.get("numpy")
    state = random.getstate(), None if numpy is None else numpy.random.get_state()
    with torch.random.fork_rng(enabled=True, devices=None if include_cuda else []):
        yield
    random.setstate(state[0])
    if numpy is not None and state[1] is not None:
        numpy.random.set_state(state[1])


def disable_possible_user_warnings(module: str = "") -> None:
    """Silence warnings that say what could be better."""
    warnings.filterwarnings("ignore", module=module, category=PossibleUserWarning)


def move_data_to_device(batch: Any, device: Any) -> Any:
    """Return nested containers with their tensors on the device."""
    return map_leaves(batch, lambda leaf: leaf.to(device) if hasattr(leaf, "to") else leaf)


def recursive_detach(in_dict: Any, to_cpu: bool = False) -> Any:
    """Return nested containers with their tensors detached."""

    def detached(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        return leaf.detach().cpu() if to_cpu else leaf.detach()

    return map_leaves(in_dict, detached)


def convert_to_tensors(data: Any, device: Any) -> Any:
    """Return nested containers with their numbers and tensors as tensors on the device."""
    return map_leaves(data, lambda leaf: torch.as_tensor(leaf, device=device) if _is_numeric(leaf) else leaf)


def convert_tensors_to_scalars(data: Any) -> Any:
    """Return nested containers with their one-element tensors as numbers."""
    return map_leaves(data, lambda leaf: leaf.item() if isinstance(leaf, torch.Tensor) else leaf)


def _is_numeric(leaf: Any) -> bool:
    return isinstance(leaf, (bool, int, float, torch.Tensor))


def extract_batch_size(batch: Any) -> int:
    """Return the first tensor's first dimension; a tensor without one counts 1."""
    for _, leaf in leaves(batch):
        if isinstance(leaf, torch.Tensor):
            return leaf.shape[0] if leaf.ndim else 1
    message = "no tensor in the batch tells its size"
    raise ValueError(message)


def sized_len(dataloader: Any) -> int | None:
    """Return how many batches a loader has, or None where nobody knows."""
    try:
        return len(dataloader)
    except (TypeError, NotImplementedError):
        return None


def has_len(dataloader: Any) -> bool:
    """Whether a loader has a length."""
    return sized_len(dataloader) is not None


def has_iterable_dataset(dataloader: Any) -> bool:
    """Whether a loader reads an iterable dataset."""
    return isinstance(getattr(dataloader, "dataset", None), IterableDataset)


def suggested_max_num_workers(local_world_size: int) -> int:
    """Return how many workers a rank's loader may have when ranks share the cores evenly."""
    if local_world_size < 1:
        message = f"local_world_size is {local_world_size}, and a machine has 1 rank or more"
        raise ValueError(message)
    return max(1, probe.num_cpus() // local_world_size - 1)


def grad_norm(module: torch.nn.Module, norm_type: float | str, group_separator: str = "/") -> dict[str, Any]:
    """Return the norm of each parameter's gradient, and of all of them together."""
    order = float(norm_type)
    if order <= 0:
        message = f"norm_type is {norm_type}, and a norm's order is above 0 or 'inf'"
        raise ValueError(message)
    norms = {
        f"grad_{order}_norm{group_separator}{name}": one.grad.detach().norm(order)
        for name, one in module.named_parameters()
        if one.grad is not None
    }
    if norms:
        norms[f"grad_{order}_norm_total"] = torch.tensor([*norms.values()]).norm(order)
    return norms


def is_picklable(obj: object) -> bool:
    """Whether an object pickles."""
    try:
        pickle.dumps(obj)
    except Exception:  # noqa: BLE001 - a foreign object's own code
        return False
    return True


def is_overridden(method_name: str, instance: object, parent: type | None = None) -> bool:
    """Whether an object's class has a method of its own in the place of its parent's."""
    method = getattr(instance, method_name, None)
    if method is None:
        return False
    if parent is not None:
        return getattr(type(instance), method_name, None) is not getattr(parent, method_name, None)
    return not is_unused(method)


def find_shared_parameters(module: torch.nn.Module) -> list[list[str]]:
    """Return the names under which one parameter is known, for each that has several."""
    names: dict[int, list[str]] = {}
    for path, part in module.named_modules(remove_duplicate=False):
        for name, one in part.named_parameters(recurse=False, remove_duplicate=False):
            names.setdefault(id(one), []).append(f"{path}.{name}".lstrip("."))
    return [found for found in names.values() if len(found) > 1]


def set_shared_parameters(module: torch.nn.Module, shared_params: Iterable[list[str]]) -> torch.nn.Module:
    """Let the parameters of each list of names be one again: the first one's."""
    for first, *others in shared_params:
        one = module.get_parameter(first)
        for path in others:
            owner, _, name = path.rpartition(".")
            setattr(module.get_submodule(owner), name, one)
    return module


def get_filesystem(path: str | os.PathLike[str], **kwargs: Any) -> Any:
    """Return the fsspec file system that a path is on."""
    import fsspec

    return fsspec.core.url_to_fs(os.fspath(path), **kwargs)[0]


def find_free_network_port() -> int:
    """Return a port that was free a moment ago."""
    with contextlib.closing(socket.socket()) as found:
        found.bind(("", 0))
        return int(found.getsockname()[1])


def num_cuda_devices() -> int:
    """Return how many CUDA devices there are."""
    return Machine.probe().devices.get("cuda", 0)


def is_cuda_available() -> bool:
    """Whether there is a CUDA device."""
    return num_cuda_devices() > 0


def find_usable_cuda_devices(num_devices: int = -1) -> list[int]:
    """Return the first devices on which a tensor can be made, by number; -1 for all that can.

    Another process may hold a device for itself. What is returned is what was true a moment ago.
    """
    there = num_cuda_devices()
    if num_devices > there or num_devices < -1:
        message = f"num_devices is {num_devices}, and this machine has {there} CUDA devices"
        raise ValueError(message)
    found: list[int] = []
    for number in range(there):
        if len(found) == num_devices:
            break
        with contextlib.suppress(RuntimeError):
            torch.zeros(1, device=torch.device("cuda", number))
            found.append(number)
    if len(found) < num_devices:
        message = f"{num_devices} CUDA devices are wanted, and of {there} only {found} can be used"
        raise RuntimeError(message)
    return found


def is_shared_filesystem(strategy: Any, path: str | os.PathLike[str] | None = None, timeout: int = 3) -> bool:
    """Whether every rank sees the files that rank 0 writes to a folder; by default the one it is in.

    Units:
        timeout: seconds that a rank waits for rank 0's file.
    Collectives:
        two objects of a few bytes; every rank must call.
    """
    folder = os.fspath(path) if path is not None else os.curdir
    if "://" in folder:
        return True  # a store has no machine of its own
    ranks, collectives = strategy.ranks, strategy.collectives
    written = ""
    if ranks.is_zero:
        handle, written = tempfile.mkstemp(prefix=".shared-", dir=folder)
        os.close(handle)
    name = Path(folder) / Path(collectives.broadcast_object(written, 0)).name
    ends_at = time.monotonic() + timeout
    while not name.exists() and time.monotonic() < ends_at:
        time.sleep(0.05)
    seen = all(collectives.all_gather_object(name.exists()))
    if ranks.is_zero:
        Path(written).unlink()
    return seen


def is_oom_error(exception: BaseException) -> bool:
    """Whether an error says that memory ran out."""
    return is_out_of_memory(exception)


def do_nothing_closure() -> None:
    """Do nothing, in the place of an optimizer's closure."""


def multiplicative(epoch: int) -> float:  # noqa: ARG001 - a schedule's function gets the epoch
    """Return the factor of a rate that doubles."""
    return 2.0


def load_hparams_from_yaml(config_yaml: str | os.PathLike[str], use_omegaconf: bool = True) -> dict[str, Any]:  # noqa: ARG001 - plain data is returned
    """Return the hyperparameters of a YAML file; none where there is no file."""
    import fsspec
    import yaml

    try:
        with fsspec.open(os.fspath(config_yaml), "r") as file:
            return dict(yaml.safe_load(file) or {})
    except FileNotFoundError:
        warnings.warn(f"no such file: {config_yaml}", UserWarning, stacklevel=2)
        return {}


@rank_zero_only
def save_hparams_to_yaml(
    config_yaml: str | os.PathLike[str],
    hparams: Mapping[str, Any],
    use_omegaconf: bool = True,  # noqa: ARG001 - as above
) -> None:
    """Write hyperparameters to a YAML file, on rank 0."""
    import fsspec
    import yaml

    with fsspec.open(os.fspath(config_yaml), "w") as file:
        yaml.safe_dump(dict(hparams), file)
