"""``drivetrain COMMAND``: each command lives in its own module and loads only when it is called."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence

import jsonargparse

from drivetrain._version import __version__
from drivetrain.resolver.collect import FLAGS
from drivetrain.resolver.legacy import LEGACY

_COMMANDS = {
    "plan": "drivetrain.cli.plan:run",
    "doctor": "drivetrain.cli.doctor:run",
    "checkpoint": "drivetrain.cli.checkpoint:run",
    "demo": "drivetrain.demo:run",
}
_PIPE_CLOSED = 128 + 13
"""The exit status of a command that SIGPIPE ends, as shells know it."""
_HELP = {
    "accelerator": "hardware: auto, cpu, gpu, cuda, mps, xpu, hpu, tpu, ipu",
    "devices": 'how many or which: 2, auto, -1, "0,2", "2-5"',
    "num_nodes": "number of machines",
    "strategy": 'parallel algorithm: auto, single, ddp, fsdp, "fsdp+tp(size=2)", ...',
    "launcher": "what starts the ranks: auto, none, subprocess, spawn, fork, forkserver, external",
    "environment": "who manages the cluster: auto, none, torchrun, slurm, mpi, lsf, kubeflow",
    "precision": "number format: 32-true, bf16-mixed, 16-mixed, 64-true, ...",
    "sync_batchnorm": "true: batch norm sees all ranks",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return its exit status: 0, or 2 for flags, or a file, that are none."""
    parsed = _parser().parse_args(list(sys.argv[1:] if arguments is None else arguments))
    module, _, function = _COMMANDS[parsed.command].partition(":")
    run = getattr(importlib.import_module(module), function)
    try:
        status: int = run(parsed[parsed.command].as_dict())
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever reads has seen enough, as ``head`` has; Python would complain once more when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _PIPE_CLOSED
    return status


def _parser() -> jsonargparse.ArgumentParser:
    parser = jsonargparse.ArgumentParser(
        prog="drivetrain", version=__version__, description="One flag per decision."
    )
    commands = parser.add_subcommands(dest="command")
    commands.add_subcommand("plan", _plan_parser(), help="print the explained plan of flags, or their errors")
    doctor = jsonargparse.ArgumentParser(
        description="Print what this machine has, and what is missing for what."
    )
    commands.add_subcommand("doctor", doctor, help="print what this machine has")
    checkpoint = jsonargparse.ArgumentParser(
        description="Look into a checkpoint; no code in the file is run, whoever wrote it."
    )
    commands.add_subcommand("checkpoint", checkpoint, help="look into a checkpoint, verify it, convert it")
    _add_actions(checkpoint)
    demo = jsonargparse.ArgumentParser(description="Train a digits classifier on two processes, end to end.")
    demo.add_argument("--out", type=str, default="digits.png", help="where the picture goes")
    commands.add_subcommand("demo", demo, help="train a digits classifier on two processes")
    return parser


def _add_actions(parser: jsonargparse.ArgumentParser) -> None:
    actions = parser.add_subcommands(dest="action")
    show = jsonargparse.ArgumentParser(description="Print what a checkpoint holds, entry by entry.")
    show.add_argument("path", type=str, help="the .ckpt file, or a path that fsspec knows: s3://...")
    show.add_argument("--depth", type=int, default=None, help="add up what lies deeper")
    show.add_argument("--json", action="store_true", help="print JSON")
    actions.add_subcommand("show", show, help="print what it holds")
    verify = jsonargparse.ArgumentParser(
        description="Read all of a checkpoint, with its checksums; exit 2 and the reason if it is not whole."
    )
    verify.add_argument("path", type=str, help="the .ckpt file")
    verify.add_argument("--finite", action="store_true", help="weights and optimizer must be finite, too")
    actions.add_subcommand("verify", verify, help="say whether it is whole")
    convert = jsonargparse.ArgumentParser(description="Write a checkpoint in another form.")
    convert.add_argument("path", type=str, help="the .ckpt file")
    convert.add_argument(
        "--to", choices=["drivetrain", "lightning", "state_dict"], required=True, help="the form"
    )
    convert.add_argument("-o", "--output", type=str, required=True, help="where to write it")
    convert.add_argument("--force", action="store_true", help="replace what is there")
    convert.add_argument(
        "--world-size", type=int, default=1, help="ranks that saved it, which Lightning's form does not say"
    )
    actions.add_subcommand("convert", convert, help="write it in another form")


def _plan_parser() -> jsonargparse.ArgumentParser:
    parser = jsonargparse.ArgumentParser(
        description="Print the explained plan of flags on this machine or on a pretended one."
    )
    for flag, text in _HELP.items():
        parser.add_argument(*_spellings(flag), type=str, default=None, help=text)
    for name in LEGACY:
        parser.add_argument(*_spellings(name), type=str, default=None, help=jsonargparse.SUPPRESS)
    parser.add_argument(
        "--machine", type=str, default=None, help="pretend a machine: cuda=8,tpu=0; cpu for none"
    )
    parser.add_argument("--notebook", action="store_true", help="pretend a notebook")
    parser.add_argument(
        "--env", action="append", default=[], metavar="K=V", help="pretend a variable; repeatable"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def _spellings(flag: str) -> list[str]:
    return list(dict.fromkeys([f"--{flag}", f"--{flag.replace('_', '-')}"]))


assert set(_HELP) | {"plugins"} == set(FLAGS)  # noqa: S101 - ours: each flag has its help
