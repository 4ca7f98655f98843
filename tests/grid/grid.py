"""The grid: every value of every flag on eight pretended machines, as text.

Per machine the plan without flags stands in full; each value of a flag is then one line: what it
changes in that plan, or the codes of the errors with the hints.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import drivetrain as dt
from drivetrain.base.origin import UNSET
from drivetrain.base.text import show
from drivetrain.resolver.aliases import ALIASES, REFUSED
from drivetrain.resolver.catalogue import shipped
from drivetrain.resolver.collect import said_arguments
from drivetrain.resolver.resolve import Question, resolve

SLURM = {
    "SLURM_PROCID": "0",
    "SLURM_NTASKS": "16",
    "SLURM_LOCALID": "0",
    "SLURM_NODEID": "0",
    "SLURM_NNODES": "2",
}
TORCHRUN = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2", "GROUP_RANK": "0"}

MACHINES = {
    "laptop: no GPU": dt.Machine(num_cpus=4),
    "one GPU": dt.Machine(cuda=1),
    "eight GPUs": dt.Machine(cuda=8),
    "two nodes with eight GPUs each, under SLURM": dt.Machine({"cuda": 8}, SLURM),
    "two ranks on CPU, under torchrun": dt.Machine({}, TORCHRUN),
    "Mac": dt.Machine(mps=1, num_cpus=8),
    "TPU with eight cores": dt.Machine(tpu=8),
    "notebook with four GPUs": dt.Machine(cuda=4, notebook=True),
}

_FACTS = shipped()
FLAGS: Mapping[str, tuple[object, ...]] = {
    "accelerator": ("auto", "gpu", *_FACTS.accelerators, "cudaa", "CPU", 2),
    "devices": (
        *("auto", -1, "-1", 1, 2, "2", 8, 9, "0,2", "1,", "2-5", [0], [1], [0, 1], (0, 1), range(2)),
        *(0, -2, True, 2.0, "", "x", "5-2", [], [1, 1], [-1], ["0"], [[0]], {0}, object),
    ),
    "num_nodes": (1, 2, "2", 3, 0, -1, True, 2.0, "two"),
    "strategy": (
        *("auto", *_FACTS.strategies, *ALIASES, *REFUSED),
        *("ddp+tp(size=2)", "fsdp+tp(size=2)", "tp(size=2)+fsdp", "hsdp(replicate=2)", "hsdp+tp(size=2)"),
        *("fsdp+cp(size=2)+tp(size=2)", "pp(size=2)+fsdp", "fsdp+ep(size=4)", "tp(size=2)", "fsdp+tp"),
        *("fsdp+tp(size=3)", "ddp+fsdp", "single+tp", "tp(size=2)+tp(size=2)", "dpp", "DDP", "ddp(", "", 2),
        *(f"deepspeed(stage={stage})" for stage in range(4)),
        *("ddp(static_graph=true)", "ddp(static_graph=1)", "ddp(statik=true)", "ddp(bucket_cap_mb=0)"),
        *(dt.DDPStrategy(static_graph=True), dt.DDPStrategy(precision="bf16-mixed"), dt.FSDPStrategy()),
        dt.StrategySpec("ddp", accelerator="cpu", devices=2),
    ),
    "launcher": ("auto", *_FACTS.launchers, "popen", "Spawn", 1),
    "environment": ("auto", *_FACTS.environments, "slrum", 1),
    "precision": (
        "auto",
        *_FACTS.precisions,
        *_FACTS.precision_aliases,
        16,
        32,
        64,
        "bf16-mix",
        8,
        16.0,
        True,
    ),
    "plugins": (
        [],
        [dt.PrecisionFacts("mine")],
        [dt.CheckpointIOFacts("mine")],
        [dt.EnvironmentFacts("mine")],
        [dt.LayerSyncFacts("mine")],
        [dt.PrecisionFacts("mine"), dt.PrecisionFacts("other")],
        "ddp",
        "ddp_spawn",
        dt.DDPStrategy(),
        "bf16-mixed",
        [1],
    ),
    "sync_batchnorm": (True, False, "true", "off", "maybe", 1),
}
"""Values of each flag: every name, the spellings of numbers and lists, and what is just outside."""

STRATEGY_NAMES = ("ddp", "ddp_spawn", "ddp_cpu", "ddp2", "horovod", "deepspeed_stage_3", "dpp", 2)
OLD: Mapping[str, tuple[object, ...]] = {
    "accelerator": STRATEGY_NAMES[:-2],
    "gpus": (0, 1, 2, "2", "0,1", [0], -1, "x"),
    "num_processes": (1, 2, 0),
    "tpu_cores": (1, 8, [2], "3,", 4),
    "ipus": (1, 2, "x"),
    "distributed_backend": STRATEGY_NAMES,
    "auto_select_gpus": (False, True),
    "amp_backend": ("native", "apex"),
    "amp_level": ("O1", "O2"),
    "replace_sampler_ddp": (True, False),
    "resume_from_checkpoint": ("last.ckpt",),
    "checkpoint_callback": (True, False, "callback"),
    "progress_bar_refresh_rate": (0, 20),
    "weights_summary": ("top", "full"),
    "terminate_on_nan": (False, True),
    "flush_logs_every_n_steps": (100,),
    "weights_save_path": ("weights",),
    "stochastic_weight_avg": (False, True),
    "track_grad_norm": (-1, 2),
    "auto_lr_find": (False, True),
    "auto_scale_batch_size": (False, "power"),
    "move_metrics_to_cpu": (False, True),
    "multiple_trainloader_mode": ("max_size_cycle",),
    "prepare_data_per_node": (True, False),
    "process_position": (0, 1),
    "log_gpu_memory": (False, "all"),
    "truncated_bptt_steps": (0, 5),
    "reload_dataloaders_every_epoch": (False, True),
    "device": (2,),
    "batch_sise": (32,),
}
"""Typical values of each old flag, and of names that never were one."""

TWICE: tuple[Mapping[str, object], ...] = (
    {"strategy": "ddp", "accelerator": "ddp"},
    {"strategy": "ddp", "distributed_backend": "ddp"},
    {"strategy": "ddp", "plugins": "ddp_sharded"},
    {"accelerator": "ddp", "plugins": "ddp_sharded"},
    {"devices": 2, "gpus": 2},
    {"gpus": 2, "tpu_cores": 8},
    {"gpus": 2, "num_processes": 2},
    {"gpus": 2, "distributed_backend": "ddp"},
    {"num_processes": 2, "distributed_backend": "ddp_cpu"},
    {"strategy": "ddp_spawn", "launcher": "subprocess"},
    {"strategy": dt.DDPStrategy(precision="bf16-mixed"), "precision": "bf16"},
    {"plugins": [dt.LayerSyncFacts("mine")], "sync_batchnorm": True},
)
"""Pairs that say one thing twice, and pairs that only look so."""

VARIABLES: tuple[Mapping[str, str], ...] = (
    {"DRIVETRAIN_ACCELERATOR": "cpu"},
    {"DRIVETRAIN_DEVICES": "2"},
    {"DRIVETRAIN_DEVICES": "auto"},
    {"DRIVETRAIN_DEVICES": "x"},
    {"DRIVETRAIN_NUM_NODES": "2"},
    {"DRIVETRAIN_STRATEGY": "fsdp"},
    {"DRIVETRAIN_STRATEGY": "ddp_spawn"},
    {"DRIVETRAIN_STRATEGY": "ddp_spawn", "DRIVETRAIN_LAUNCHER": "fork"},
    {"DRIVETRAIN_LAUNCHER": "spawn"},
    {"DRIVETRAIN_ENVIRONMENT": "none"},
    {"DRIVETRAIN_PRECISION": "bf16"},
    {"DRIVETRAIN_SYNC_BATCHNORM": "1"},
    {"DRIVETRAIN_DEVICE": "2"},
    {"LOCAL_RANK": "0"},
    {"SLURM_JOB_NAME": "bash"},
)
"""Variables, added to those of the machine."""

HEAD = """\
Every value of every flag on eight pretended machines. After a change that is meant, renew with
    pytest tests/grid --update-grid

    flag=value  name=new ...   what differs from the machine's plan without flags
    flag=value  same           nothing differs
    flag=value  ! code         an error; after it the hints: | what to pass, -flag to leave out
    ~ call                     an old spelling, with the call that its warning prints
"""


def text() -> str:
    """Return the grid: first what is the same on every machine, then each machine."""
    answers = {title: _answers(machine) for title, machine in MACHINES.items()}
    first, *others = answers.values()
    common = {key for key, line in first.items() if all(other[key] == line for other in others)}
    lines = [HEAD, *_section("every machine", {key: first[key] for key in first if key in common})]
    for title, machine in MACHINES.items():
        mine = {key: line for key, line in answers[title].items() if key not in common}
        lines += _section(title, mine, ask(machine, {}).explain())
    return "\n".join(lines) + "\n"


def _section(title: str, answers: Mapping[tuple[str, int], str], plan: str = "") -> Iterator[str]:
    yield from ("", f"{title} ".ljust(100, "="))
    yield from ["", plan] if plan else []
    last = ""
    for (topic, _), line in answers.items():
        yield from ["", f"# {topic}"] if topic != last else []
        yield line
        last = topic


def _answers(machine: dt.Machine) -> dict[tuple[str, int], str]:
    """Return every line of one machine by its topic and its place in it."""
    baseline = ask(machine, {})
    topics: list[tuple[str, Sequence[Mapping[str, object]]]] = [
        (flag, [{flag: value} for value in values]) for flag, values in FLAGS.items()
    ]
    topics += [(f"{flag}, old", [{flag: value} for value in values]) for flag, values in OLD.items()]
    topics += [("said twice", TWICE)]
    asked = {
        (topic, place): row(flags, machine, baseline)
        for topic, questions in topics
        for place, flags in enumerate(questions)
    }
    told = {
        ("variables", place): row({}, _with_variables(machine, variables), baseline, variables)
        for place, variables in enumerate(VARIABLES)
    }
    return asked | told


def _with_variables(machine: dt.Machine, variables: Mapping[str, str]) -> dt.Machine:
    return dt.Machine(
        machine.devices,
        {**machine.variables, **variables},
        notebook=machine.notebook,
        num_cpus=machine.num_cpus,
    )


def ask(machine: dt.Machine, flags: Mapping[str, object]) -> dt.Plan:
    """Resolve with the facts that ship and a fixed release, whatever is installed."""
    return resolve(Question(said_arguments(flags, ""), machine, shipped(), version="0.1.0")).plan


def row(
    flags: Mapping[str, object],
    machine: dt.Machine,
    baseline: dt.Plan,
    variables: Mapping[str, str] | None = None,
) -> str:
    """Return the line of one question; ``variables`` are those that it adds to the machine."""
    said = variables or {flag: _value(value) for flag, value in flags.items()}
    question = ", ".join(f"{name}={value}" for name, value in said.items())
    try:
        plan = ask(machine, flags)
    except dt.PlanError as error:
        answer = "; ".join(_error(conflict) for conflict in error.conflicts)
    else:
        changed = [f"{name}={_new(name, new)}" for name, (_, new) in baseline.diff(plan).items()]
        notes = [f" ~ {notice.message.rpartition('; write ')[2]}" for notice in plan.notices]
        answer = " ".join(one for one in changed if not one.startswith("num_devices")) or "same"
        answer += "".join(dict.fromkeys(notes))
    return f"{question:<36}  {answer}"


def _error(conflict: dt.Conflict) -> str:
    hints = [
        ", ".join(f"-{name}" if value is UNSET else f"{name}={_value(value)}" for name, value in fix.items())
        for fix in conflict.fixes
    ]
    return " | ".join([f"! {conflict.code}", *hints])


def _value(value: object) -> str:
    if isinstance(value, list) and value and hasattr(value[0], "name"):
        return "[" + ", ".join(f"{type(one).__name__}({one.name!r})" for one in value) + "]"
    if isinstance(value, dt.StrategySpec):
        parts = "".join(f", {name}={held!r}" for name, held in value.parts.items())
        return f"{type(value).__name__}({str(value)!r}{parts})"
    return show(value)


def _new(name: str, value: object) -> str:
    if name == "device_ids" and isinstance(value, tuple):
        is_run = len(value) > 2 and value == tuple(range(value[0], value[-1] + 1))
        return f"{value[0]}-{value[-1]}" if is_run else ",".join(map(str, value))
    if name == "layout" and isinstance(value, Mapping):
        return "x".join(f"{axis}:{size}" for axis, size in value.items() if size > 1) or "one"
    return str(value)
