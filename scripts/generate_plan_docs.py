"""Write docs/plan.md: what a plan is, the flags, and the plans of ten pretended machines.

Every output stands there as the command prints it into a pipe. With --check nothing is written, and
the exit status is 1 where the file on disk differs.
"""

from __future__ import annotations

import contextlib
import io
import os
import shlex
import sys
from collections.abc import Iterable, Iterator

from written import ROOT, write_or_check

from drivetrain.cli.main import main
from drivetrain.resolver.aliases import ALIASES
from drivetrain.resolver.catalogue import shipped

PAGE = ROOT / "docs" / "plan.md"
SLURM = "SLURM_PROCID=0 SLURM_NTASKS=16 SLURM_LOCALID=0 SLURM_NODEID=0 SLURM_NNODES=2"
TORCHRUN = "RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=2 GROUP_RANK=0"

INTRODUCTION = """
# The plan

A plan is every decision about a run, made before anything runs: hardware, devices, nodes, strategy,
mesh, launcher, environment, precision and storage. It is a frozen value. Two equal questions give equal
plans, nothing is guessed later, and each decision keeps where it came from and why.

```python
import drivetrain as dt

plan = dt.plan(devices=8, strategy="fsdp", machine=dt.Machine(cuda=8))  # a pretended machine
print(plan.world_size, plan.strategy, plan.layout["dp_shard"])
print(plan.sources["launcher"].reason)
print(plan.explain())
```

Without `machine` it is this machine, and the same flags stand on `dt.Trainer(...)`, which keeps its
plan as `trainer.plan`. `plan.to_dict()` and `dt.Plan.from_dict(...)` write it down and read it back;
`plan.diff(other)` says what differs. On the command line, `drivetrain plan` prints the plan and
loads no torch where the machine is a pretended one.

Of several sources of one decision the most explicit counts: an argument, then an object that holds
the value, an old spelling, an environment variable `DRIVETRAIN_<FLAG>`, the machine, the default.
What was said is never changed or ignored: it is honoured, or it is an error that names its sources
(all of them at once, each with its page in [errors](errors/README.md)).
"""

MACHINES = (
    ("A laptop without a GPU", "One process on the processor.", "--machine cpu", ""),
    ("One GPU", "It is taken, and nothing has to be started.", "--machine cuda=1", ""),
    ("Eight GPUs", "All of them, with `ddp`.", "--machine cuda=8 --precision bf16-mixed", ""),
    (
        "Two nodes with eight GPUs each, under SLURM",
        "`srun` started the ranks and its variables say how many, so no flag repeats it.",
        "--machine cuda=8 --strategy fsdp",
        SLURM,
    ),
    (
        "Two ranks under torchrun",
        "As with SLURM: each process that runs is one rank.",
        "--machine cpu",
        TORCHRUN,
    ),
    ("A Mac", "The GPU, whatever its backend is called.", "--machine mps=1 --accelerator gpu", ""),
    ("A TPU with eight cores", "`ddp` does not run on it; the default is `xla`.", "--machine tpu=8", ""),
    (
        "A notebook with four GPUs",
        "One device unless more are said. Processes are forked, since no device is in use yet.",
        "--machine cuda=4 --notebook --devices 4",
        "",
    ),
    (
        "Sharded data and tensor parallel on eight GPUs",
        "`tp` has two ranks, `fsdp` takes what is left.",
        '--machine cuda=8 --strategy "fsdp+tp(size=2)"',
        "",
    ),
    (
        "Flags that a Mac cannot fulfil",
        "The exit status is 2. A hint is shown only after it was tried and found to work.",
        "--machine mps=1 --accelerator mps --strategy deepspeed --precision 64-true",
        "",
    ),
)


def text() -> str:
    """Return the page."""
    return "\n".join([INTRODUCTION.strip(), "", *_flags(), *_machines()])


def _flags() -> Iterator[str]:
    facts = shipped()
    order = [one.name for one in facts.accelerator_order]
    composed = "with options `deepspeed(stage=3)`; composed `fsdp+tp(size=2)`"
    rows = (
        ("accelerator", "`auto`", "the kind of hardware", f"`auto`, `gpu`, {_names(order)}"),
        (
            "devices",
            "`auto`",
            "how many or which, on each node",
            '`auto`, `-1` (all), `2`, `"0,2"`, `"2-5"`, `[0, 2]`',
        ),
        ("num_nodes", "`1`", "how many machines", "1 or more"),
        (
            "strategy",
            "`auto`",
            "the parallel algorithm",
            f"`auto`, {_names(facts.strategies)}; {composed}; {len(ALIASES)} names of older APIs",
        ),
        ("launcher", "`auto`", "how the other ranks start", f"`auto`, {_names(facts.launchers)}"),
        ("environment", "`auto`", "who started this process", f"`auto`, {_names(facts.environments)}"),
        (
            "precision",
            "`32-true`",
            "the number format",
            f"{_names(facts.precisions)}; short {_names(facts.precision_aliases)}",
        ),
        (
            "plugins",
            "none",
            "objects of your own",
            "a Precision, CheckpointIO, ClusterEnvironment, LayerSync",
        ),
        ("sync_batchnorm", "`False`", "whether batch norm sees all ranks", "`True`, `False`"),
    )
    yield "## The flags"
    yield ""
    yield "| flag | default | decides | values |"
    yield "|---|---|---|---|"
    for flag, default, decides, values in rows:
        yield f"| `{flag}` | {default} | {decides} | {values} |"
    yield ""


def _names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _machines() -> Iterator[str]:
    yield "## Ten machines"
    yield ""
    for title, sentence, words, variables in MACHINES:
        lines = [f"drivetrain plan {words}", *(f"    --env {pair}" for pair in variables.split())]
        status, printed = _output(shlex.split(" ".join(lines))[1:])
        yield f"### {title}"
        yield ""
        yield sentence
        yield ""
        yield "```console"
        yield "$ " + " \\\n".join(lines)
        yield printed.rstrip("\n")
        if status:
            yield "$ echo $?"
            yield str(status)
        yield "```"
        yield ""


def _output(words: list[str]) -> tuple[int, str]:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        status = main(words)
    return status, printed.getvalue()


if __name__ == "__main__":
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE"):
        os.environ.pop(name, None)  # they would make the output look like a terminal's
    sys.exit(write_or_check({PAGE: text().rstrip("\n") + "\n"}, (__doc__ or "").partition("\n")[0]))
