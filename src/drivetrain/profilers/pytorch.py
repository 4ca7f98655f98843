"""PyTorchProfiler: operators and kernels, by torch.profiler."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from typing import Any, final

import torch

from drivetrain.base.errors import BuildError
from drivetrain.machine import probe
from drivetrain.profilers.files import written_by
from drivetrain.profilers.options import check_options, check_sort_key
from drivetrain.profilers.profiler import Profiler, bad_argument

_STEPS = {
    "fit": "run_training_batch",
    "validate": ".validation_step",
    "test": ".test_step",
    "predict": ".predict_step",
}
"""The action, or the end of its name, that is one step of the schedule."""
_COMPILED = "_orig_mod"
"""A compiled part's own name for what it was made of."""


@final
class PyTorchProfiler(Profiler):
    """Records operators, and on a GPU kernels, of a few steps; a run's actions are ranges among them.

    Where no ``schedule`` is among ``profiler_kwargs``, one step is left out, one warms up and three are
    recorded, once; None records every step, and keeps all of it in memory. A step is a training batch of
    a fit, a batch of the other verbs; what comes between is in it. ``export_to_chrome`` writes a trace,
    ``<stage>-<filename or trace>-<rank>.pt.trace.json``, for https://ui.perfetto.dev or chrome://tracing;
    an ``on_trace_ready`` of your own replaces that. The report has ``row_limit`` operators.

    ``profiler_kwargs`` go to ``torch.profiler.profile``; where ``activities`` are not said they are the CPU
    and, where there is one, the GPU. ``emit_nvtx`` records nothing itself: it marks ranges for ``nsys
    profile -c cudaProfilerApi``.

    Raises:
        ProfilerError [profiler.bad-argument]: an argument has a value that it cannot have.
        BuildError [profiler.no-cuda]: ``emit_nvtx``, and there is no CUDA device.
    """

    def __init__(  # noqa: PLR0917 - the order that users of such profilers know
        self,
        dirpath: str | os.PathLike[str] | None = None,
        filename: str | None = None,
        group_by_input_shapes: bool = False,
        emit_nvtx: bool = False,
        export_to_chrome: bool = True,
        row_limit: int = 20,
        sort_by_key: str | None = None,
        record_module_names: bool = True,
        table_kwargs: Mapping[str, Any] | None = None,
        **profiler_kwargs: Any,
    ) -> None:
        super().__init__(dirpath, filename)
        switches = {
            "group_by_input_shapes": group_by_input_shapes,
            "emit_nvtx": emit_nvtx,
            "export_to_chrome": export_to_chrome,
            "record_module_names": record_module_names,
        }
        for name, value in switches.items():
            if not isinstance(value, bool):
                raise bad_argument(self, name, value, "True or False", f"pass {name}=True")
        if type(row_limit) is not int or row_limit < -1 or row_limit == 0:
            raise bad_argument(self, "row_limit", row_limit, "an int of 1 or more, or -1 for all", "pass 20")
        self._options = check_options(self, profiler_kwargs)
        self._sort_by = check_sort_key(self, sort_by_key)
        self._by_shapes, self._emits, self._exports = group_by_input_shapes, emit_nvtx, export_to_chrome
        self._row_limit, self._names_modules = row_limit, record_module_names
        self._table = dict(table_kwargs or {})
        if emit_nvtx and not probe.num_devices("cuda"):
            raise no_cuda()
        self._forget()

    def _forget(self) -> None:
        self._profile: Any = None
        self._is_done = False
        self._num_steps = self._num_traces = 0
        self._averages: Any = None
        self._ranges: list[tuple[str, Any]] = []
        self._named: list[tuple[torch.nn.Module, Any]] = []
        self._handles: list[Any] = []

    def start(self, action_name: str) -> None:
        """Open a range; with the first step recording begins."""
        if self._profile is None:
            if self._is_done or not (self._stage is None or self._is_step(action_name)):
                return
            self._begin()
        self._ranges.append((action_name, _opened(action_name)))

    def stop(self, action_name: str) -> None:
        """Close the range; what began before recording did has none."""
        if not any(name == action_name for name, _ in self._ranges):
            return
        name = ""
        while name != action_name:
            name, opened = self._ranges.pop()
            opened.__exit__(None, None, None)
        if self._is_step(action_name):
            self._num_steps += 1
            if not self._emits:
                self._step()

    def _step(self) -> None:
        profile, self._profile = self._profile, None
        with warnings.catch_warnings():
            # Each cycle's events are read when it ends, so none is missed.
            warnings.filterwarnings(
                "ignore", message=".*Profiler clears events at the end", category=UserWarning
            )
            profile.step()
        self._profile = profile  # not after a failure: torch crashes where a broken recording is ended again

    def _is_step(self, action_name: str) -> bool:
        return self._stage is not None and action_name.endswith(_STEPS.get(self._stage, "\n"))

    def _begin(self) -> None:
        self._name_modules()
        if self._emits:
            torch.cuda.profiler.start()  # type: ignore[no-untyped-call]  # torch's own
            self._profile = torch.autograd.profiler.emit_nvtx()  # type: ignore[no-untyped-call]  # torch's own
            self._profile.__enter__()
            return
        options = {"record_shapes": self._by_shapes, "activities": _activities(), **self._options}
        if self._stage is not None:
            options.setdefault("schedule", torch.profiler.schedule(wait=1, warmup=1, active=3, repeat=1))
        self._profile = torch.profiler.profile(**options | {"on_trace_ready": self._take})
        self._profile.start()

    def _take(self, profile: Any) -> None:
        """Keep what a cycle of the schedule recorded, and hand it on."""
        self._averages = profile.key_averages(group_by_input_shape=self._by_shapes)
        ready = self._options.get("on_trace_ready")
        if ready is not None:
            ready(profile)
        elif self._exports:
            number = self._num_traces or None
            name = self._file_name(None if number is None else str(number), ".pt.trace.json", "trace")
            written_by(profile.export_chrome_trace, self.folder, name)
        self._num_traces += 1

    def _end(self) -> None:
        while self._ranges:
            self._ranges.pop()[1].__exit__(None, None, None)
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        profile, self._profile = self._profile, None
        if profile is None:
            return
        self._is_done = True
        if self._emits:
            profile.__exit__(None, None, None)
            torch.cuda.profiler.stop()  # type: ignore[no-untyped-call]  # torch's own
        else:
            profile.stop()

    def setup(self, stage: str, local_rank: int | None = None, log_dir: str | None = None) -> None:
        """Begin anew."""
        self._end()
        self._forget()
        super().setup(stage, local_rank, log_dir)

    def describe(self) -> None:
        """End the recording, and write the report."""
        self._end()
        super().describe()

    def teardown(self, stage: str | None) -> None:
        """End the recording."""
        self._end()

    def summary(self) -> str:
        """Return the report on what was recorded; empty with ``emit_nvtx``."""
        if self._emits or (self._averages is None and not self._num_steps):
            return ""
        if self._averages is None:
            return (
                f"{self._title()}\nnothing was recorded: the schedule asks for no recording within "
                f"{self._num_steps} steps; pass one that begins earlier, or schedule=None for all steps\n"
            )
        has_device = any(one.self_device_time_total > 0 for one in self._averages)
        by = self._sort_by or ("device_time_total" if has_device else "cpu_time_total")
        drawn = self._averages.table(**{"sort_by": by, "row_limit": self._row_limit, **self._table})
        return f"{self._title()}\n{drawn}\n"

    def _name_modules(self) -> None:
        if not self._names_modules or self._module is None:
            return
        for name, part in self._module.named_modules():
            if not name or _COMPILED in name or isinstance(part, torch.jit.ScriptModule):
                continue  # hooks on what is compiled would change what is compiled
            title = f"[Module]{type(part).__name__}: {name}"
            self._handles += [
                part.register_forward_pre_hook(self._opener(title)),
                part.register_forward_hook(self._close, always_call=True),
            ]

    def _opener(self, title: str) -> Any:
        def opens(part: torch.nn.Module, _: object) -> None:
            self._named.append((part, _opened(title)))

        return opens

    def _close(self, part: torch.nn.Module, *_: object) -> None:
        if any(one is part for one, _ in self._named):
            last: Any = None
            while last is not part:
                last, opened = self._named.pop()
                opened.__exit__(None, None, None)

    def __getstate__(self) -> dict[str, Any]:
        """Travel to another rank without what was measured here."""
        live: dict[str, Any] = {
            "_profile": None,
            "_averages": None,
            "_ranges": [],
            "_named": [],
            "_handles": [],
        }
        return {**super().__getstate__(), **live}


def no_cuda() -> BuildError:
    """Return the error for marks that only a CUDA tool could read."""
    return BuildError(
        "profiler.no-cuda",
        "PyTorchProfiler(emit_nvtx=True) on a machine without a CUDA device",
        values={"emit_nvtx": True, "cuda devices": 0},
        because="NVTX ranges are read by NVIDIA's tools, from a process that uses CUDA",
        hint="leave emit_nvtx out: torch's own recording works on every device",
    )


def _opened(name: str) -> Any:
    found: Any = torch.profiler.record_function(name)
    found.__enter__()
    return found


def _activities() -> list[torch.profiler.ProfilerActivity]:
    kinds = torch.profiler.ProfilerActivity
    return [kinds.CPU, kinds.CUDA] if probe.num_devices("cuda") else [kinds.CPU]
