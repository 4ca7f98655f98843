"""``drivetrain checkpoint show|verify|convert``: look into a checkpoint, check it, convert it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from drivetrain.base.errors import CheckpointError, DrivetrainError
from drivetrain.base.text import show as shown
from drivetrain.base.tree import leaves
from drivetrain.checkpoint_io import LocalCheckpointIO

FORMS = ("weights", "lightning")
_LIGHTNING = "2.6.0"
"""Which release's form is written; later ones read it through their own migration."""
_UNITS = ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))


def run(options: Mapping[str, Any]) -> int:
    """Do what was asked for; 0, or 2 with the error for a file that is no whole checkpoint."""
    name = options["subcommand"]
    given = options[name]
    try:
        checkpoint = LocalCheckpointIO().load(given["path"])
        lines = _COMMANDS[name](checkpoint, given)
    except DrivetrainError as error:
        print(error, file=sys.stderr)
        return 2
    for line in lines:
        print(line)
    return 0


def show(checkpoint: dict[str, Any], given: Mapping[str, Any]) -> list[str]:
    """Return what is in it: the run's place, then every entry with shape, format and size."""
    rows = list(_rows(checkpoint))
    if given["json"]:
        return [json.dumps({"entries": rows, "progress": _progress(checkpoint)}, indent=2, default=str)]
    width = min(max((len(row["entry"]) for row in rows), default=0), 60)
    lines = [f"{name}: {value}" for name, value in _progress(checkpoint).items()]
    lines += ["", *(f"{row['entry']:<{width}}  {row['value']}" for row in rows)]
    total = sum(row["bytes"] for row in rows)
    return [*lines, "", f"{len(rows)} entries, {_size(total)} in tensors"]


def verify(checkpoint: dict[str, Any], given: Mapping[str, Any]) -> list[str]:
    """Return a line that says it is whole.

    Raises:
        CheckpointError [checkpoint.not-finite]: with ``--finite``, a tensor holds nan or infinity.
    """
    tensors = [(name, leaf) for name, leaf in leaves(checkpoint) if isinstance(leaf, torch.Tensor)]
    if given["finite"]:
        for name, tensor in tensors:
            if tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
                raise CheckpointError(
                    "checkpoint.not-finite",
                    f"the entry {name} of {given['path']} is not finite",
                    values={"path": given["path"], "entry": name, "value": tensor},
                    because="weights with nan or infinity make every result nan",
                    hint="go on from an older checkpoint, with gradient clipping or a lower learning rate",
                )
    kind = "a run can go on from it" if "optimizer_states" in checkpoint else "weights only"
    size = _size(sum(tensor.nbytes for _, tensor in tensors))
    return [f"whole: {len(tensors)} tensors, {size}; {kind}"]


def convert(checkpoint: dict[str, Any], given: Mapping[str, Any]) -> list[str]:
    """Write it in another form; the file itself stays.

    Raises:
        CheckpointError [checkpoint.no-weights]: it holds no ``state_dict``.
        CheckpointError [checkpoint.write]: the storage refused, or there is a file already.
    """
    if not isinstance(checkpoint.get("state_dict"), Mapping):
        raise CheckpointError(
            "checkpoint.no-weights",
            f"{given['path']} has no state_dict",
            values={"path": given["path"], "holds": sorted(map(str, checkpoint))},
            because="every form has the model's weights",
            hint="give the path of a file that a run has saved",
        )
    made = checkpoint["state_dict"] if given["to"] == "weights" else _for_lightning(checkpoint)
    LocalCheckpointIO().save(dict(made), given["out"])
    return [f"wrote {given['out']}: {', '.join(list(made)[:6])}{', ...' if len(made) > 6 else ''}"]  # noqa: PLR2004


_COMMANDS = {"show": show, "verify": verify, "convert": convert}


def _rows(checkpoint: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for name, leaf in leaves(checkpoint):
        if isinstance(leaf, torch.Tensor):
            text = f"{str(leaf.dtype).removeprefix('torch.')} {list(leaf.shape)} {_size(leaf.nbytes)}"
            yield {"entry": str(name), "value": text, "bytes": leaf.nbytes}
        else:
            yield {"entry": str(name), "value": shown(leaf), "bytes": 0}


def _progress(checkpoint: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    versions = ("drivetrain_version", "pytorch-lightning_version")
    found |= {name: checkpoint[name] for name in (*versions, "epoch", "global_step") if name in checkpoint}
    plan = checkpoint.get("plan")
    if isinstance(plan, Mapping):
        flags = ("accelerator", "strategy", "precision", "world_size", "num_devices", "num_nodes")
        found["plan"] = ", ".join(f"{name} {plan[name]}" for name in flags if name in plan)
    return found


def _for_lightning(checkpoint: Mapping[str, Any]) -> dict[str, Any]:
    """Return what Lightning's ``load_from_checkpoint`` reads, and optimizers and schedulers beside it."""
    kept = ("state_dict", "epoch", "global_step", "hyper_parameters", "optimizer_states", "lr_schedulers")
    made = {name: checkpoint[name] for name in kept if name in checkpoint}
    if "hyper_parameters" in made:
        made["hparams_name"] = "kwargs"
    return {"pytorch-lightning_version": _LIGHTNING, "callbacks": {}, **made}


def _size(count: int) -> str:
    for unit, name in _UNITS:
        if count >= unit:
            return f"{count / unit:.1f} {name}"
    return f"{count} bytes"
