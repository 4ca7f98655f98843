"""``drivetrain plan``: flags in, the explained plan out; exit 2 with every error otherwise."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Mapping
from typing import Any

import rich.box
import rich.console
import rich.markup
import rich.table

from drivetrain.base.errors import DrivetrainWarning, PlanError
from drivetrain.base.text import listed, show
from drivetrain.flags.calls import parse_value
from drivetrain.flags.pairs import parse_counts, parse_variables
from drivetrain.flags.problem import Problem
from drivetrain.machine.snapshot import Machine
from drivetrain.resolver.catalogue import in_force
from drivetrain.resolver.collect import FLAGS
from drivetrain.resolver.explain import HEADER, rows
from drivetrain.resolver.front import plan_for
from drivetrain.resolver.legacy import LEGACY
from drivetrain.resolver.plan import Plan


def run(options: Mapping[str, Any]) -> int:
    """Resolve and print; 0 for a plan, 2 for errors."""
    try:
        machine = _machine(options)
        flags = {name: options[name] for name in FLAGS if options.get(name) is not None}
        old = {name: _old_value(options[name]) for name in LEGACY if options.get(name) is not None}
        with warnings.catch_warnings():
            # The plan's own notes say the same, once.
            warnings.simplefilter("ignore", DrivetrainWarning)
            plan = plan_for(
                {**flags, **old}, caller="Trainer", machine=machine, typed="drivetrain plan --{}"
            ).plan
    except Problem as problem:
        print(f"{problem.message}\n  because {problem.because}", file=sys.stderr)
        return 2
    except PlanError as error:
        if options["json"]:
            print(json.dumps(_errors(error), indent=2))
        else:
            print(error, file=sys.stderr)
        return 2
    _print(plan, as_json=options["json"])
    return 0


def _machine(options: Mapping[str, Any]) -> Machine | None:
    variables = parse_variables(options["env"])
    if options["machine"] is not None:
        counts = parse_counts(options["machine"])
        kinds = [name for name, facts in in_force().accelerators.items() if not facts.counts_processes]
        for kind in counts.keys() - kinds:
            raise Problem(f"machine has {show(kind)}, which is no kind of device", f"kinds: {listed(kinds)}")
        return Machine(counts, variables, notebook=options["notebook"])
    if not variables and not options["notebook"]:
        return None
    here = Machine.probe()
    return Machine(
        here.devices,
        {**here.variables, **variables},
        notebook=options["notebook"] or here.notebook,
        fork=here.fork,
        touched=here.touched,
        num_cpus=here.num_cpus,
    )


def _old_value(text: str) -> object:
    """Read an old flag's text as the Python value that it stood for."""
    try:
        return parse_value(text)
    except Problem:
        return text


def _errors(error: PlanError) -> dict[str, Any]:
    return {
        "conflicts": [
            {
                "code": conflict.code,
                "message": conflict.message,
                "flags": {name: str(source) for name, source in conflict.flags.items()},
                "because": conflict.because,
                "fixes": [{name: show(value) for name, value in fix.items()} for fix in conflict.fixes],
            }
            for conflict in error.conflicts
        ]
    }


def _print(plan: Plan, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(plan.to_dict(), indent=2))
        return
    console = rich.console.Console()
    if not console.is_terminal:
        print(plan.explain())
        return
    table = rich.table.Table(*HEADER, box=rich.box.SIMPLE_HEAD)
    for row in rows(plan.decisions(), plan.sources):
        table.add_row(*map(rich.markup.escape, row))
    console.print(table)
    for notice in plan.notices:
        console.print(f"note: {notice.message}", markup=False)
