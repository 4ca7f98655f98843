"""``drivetrain checkpoint``: what a file holds, whether it is whole, and the same in another form.

A file runs no code here, whoever wrote it.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from drivetrain.base.errors import CheckpointError, DrivetrainError
from drivetrain.checkpoint_io.contents import Row, nonfinite, rows
from drivetrain.checkpoint_io.entry import Entry
from drivetrain.checkpoint_io.local import LocalCheckpointIO
from drivetrain.checkpoint_io.trace import trace
from drivetrain.loops.kept import check_kept
from drivetrain.loops.lightning import VERSION, from_lightning, is_lightnings, to_lightning
from drivetrain.modules.hyperparameters import split_plain

_STORAGE = LocalCheckpointIO()
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
_STEP = 1024
_WIDEST = 72
_OF_PLAN = ("accelerator", "strategy", "world_size", "precision")
_OF_PROGRESS = ("epoch", "global_step", "batches", "samples", "is_done")


def run(options: Mapping[str, Any]) -> int:
    """Do what is asked; 0, or 2 with the reason on standard error."""
    action = options["action"]
    try:
        return _ACTIONS[action](options[action])
    except DrivetrainError as error:
        print(error, file=sys.stderr)
        return 2
    except BrokenPipeError:  # `| head` has read enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _show(options: Mapping[str, Any]) -> int:
    """Print what a checkpoint holds."""
    path = options["path"]
    checkpoint = _STORAGE.load(path)
    found = [*rows(checkpoint)]
    about = {"path": path, "total_bytes": sum(row.num_bytes for row in found), **_about(checkpoint)}
    if options["json"]:
        entries = [
            {name: value for name, value in vars(row).items() if value not in ("", None)} for row in found
        ]
        print(json.dumps({**about, "entries": entries}, indent=2))
        return 0
    for name, value in about.items():
        text = ", ".join(f"{key} {kept}" for key, kept in value.items()) if isinstance(value, dict) else value
        print(f"{name.replace('_', ' '):<12} {_size(value) if name == 'total_bytes' else text}")
    print()
    _print_table(_folded(found, options["depth"]))
    return 0


def _about(checkpoint: Mapping[str, Any]) -> dict[str, Any]:
    """Return who wrote it, by which plan, and how far the run was."""
    names = {"drivetrain_version": "drivetrain", VERSION: "lightning", "torch_version": "torch"}
    about: dict[str, Any] = {
        "written_by": {says: str(checkpoint[name]) for name, says in names.items() if name in checkpoint}
    }
    plan = checkpoint.get("plan")
    if isinstance(plan, Mapping):
        about["plan"] = {name: plan[name] for name in _OF_PLAN if isinstance(plan.get(name), (str, int))}
    ours = from_lightning(checkpoint, "", 1) if is_lightnings(checkpoint) else checkpoint
    loops = ours.get("loops")
    fit = loops.get("fit") if isinstance(loops, Mapping) else None
    progress = fit.get("progress") if isinstance(fit, Mapping) else None
    source = progress if isinstance(progress, Mapping) else checkpoint
    about["progress"] = {name: source[name] for name in _OF_PROGRESS if isinstance(source.get(name), int)}
    return about


def _folded(found: Iterable[Row], depth: int | None) -> list[Row]:
    """Return the rows, those deeper than ``depth`` added up in their container's."""
    if depth is None:
        return [*found]
    kept: dict[str, list[Row]] = {}
    for row in found:
        parts = row.entry.replace("[", ".[").split(".")
        kept.setdefault(".".join(parts[:depth]).replace(".[", "["), []).append(row)
    return [
        members[0]
        if len(members) == 1 and members[0].entry == name
        else Row(name, f"{len(members)} entries", num_bytes=sum(row.num_bytes for row in members))
        for name, members in kept.items()
    ]


def _print_table(found: list[Row]) -> None:
    lines = [("entry", "kind", "shape", "dtype", "size", "value")]
    for row in found:
        shape = "" if row.shape is None else str([*row.shape])
        size = _size(row.num_bytes) if row.num_bytes or row.kind == "tensor" else ""
        lines.append((_cut(row.entry), row.kind, shape, row.dtype, size, row.value))
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        print("  ".join(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)).rstrip())


def _cut(entry: str) -> str:
    """Return an entry's name, its middle left out where it is long: keys of callbacks are."""
    return entry if len(entry) <= _WIDEST else f"{entry[: _WIDEST // 2 - 2]}...{entry[-(_WIDEST // 2 - 2) :]}"


def _size(num_bytes: int) -> str:
    size, unit = float(num_bytes), 0
    while size >= _STEP and unit < len(_UNITS) - 1:
        size, unit = size / _STEP, unit + 1
    return f"{num_bytes} B" if not unit else f"{size:.1f} {_UNITS[unit]}"


def _verify(options: Mapping[str, Any]) -> int:
    """Say whether a fit could go on from a checkpoint, as far as the file alone tells."""
    path = options["path"]
    checkpoint = _STORAGE.load(path)
    ours = from_lightning(checkpoint, path, 1) if is_lightnings(checkpoint) else checkpoint
    loops = ours.get("loops")
    what = "weights only"
    if "state_dict" not in checkpoint:
        what = "no weights that a module is made from: not written by a Trainer"
    elif isinstance(loops, Mapping) and "fit" in loops:
        check_kept(Entry(ours, path))
        what = "weights, and a state to go on from"
    if options["finite"]:
        name = nonfinite(
            {key: kept for key, kept in checkpoint.items() if key in ("state_dict", "optimizer_states")}
        )
        if name:
            raise Entry(None, path, name).damaged(f"{name} has values that are infinite or no numbers")
    print(f"{path} is whole: {what}")
    return 0


def _convert(options: Mapping[str, Any]) -> int:
    """Write a checkpoint in another form."""
    path, output, form = options["path"], options["output"], options["to"]
    if not options["force"] and trace(output) is not None:
        raise CheckpointError(
            "checkpoint.write",
            f"{output} is there already",
            values={"path": path, "output": output},
            because="nothing is replaced unless that is said",
            hint="give another path, or pass --force",
        )
    checkpoint, left_out = _with_plain(_STORAGE.load(path))
    if form == "state_dict":
        made = dict(Entry(checkpoint, path)["state_dict"].mapping())
    elif form == "lightning":
        made = to_lightning(checkpoint, path)
    else:
        made = _ours(checkpoint, path, options["world_size"])
    _STORAGE.save(made, output)
    for name in left_out:
        print(f"left out: {name}, which is no plain data")
    print(f"wrote {output}")
    return 0


def _with_plain(checkpoint: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    kept = checkpoint.get("hyper_parameters")
    if not isinstance(kept, Mapping):
        return checkpoint, []
    texts = {
        name: os.fspath(value) if isinstance(value, os.PathLike) else value for name, value in kept.items()
    }
    plain, others = split_plain(texts, ())
    return {**checkpoint, "hyper_parameters": plain}, [f"hyper_parameters.{name}" for name in others]


def _ours(checkpoint: Mapping[str, Any], path: str, world_size: int) -> dict[str, Any]:
    if not is_lightnings(checkpoint):
        loops = checkpoint.get("loops")
        if isinstance(loops, Mapping) and "fit" in loops:
            return dict(checkpoint)
        raise CheckpointError(
            "checkpoint.no-training-state",
            f"{path} has no state that a fit could go on from",
            values={"path": path, "holds": sorted(map(str, checkpoint))},
            because="it is neither ours nor Lightning's, or it holds weights only",
            hint="load the weights only: Model.load_from_checkpoint(path)",
        )
    found = from_lightning(checkpoint, path, world_size)
    return {**found, "loops": {"fit": found["loops"]["fit"]}}


_ACTIONS = {"show": _show, "verify": _verify, "convert": _convert}
