"""Old spellings: translated with the new call in the warning, or refused with it."""

from __future__ import annotations

import inspect
import re
import warnings

import pytest

import drivetrain as dt
from drivetrain.base.origin import UNSET, Origin, Sourced
from drivetrain.resolver.catalogue import shipped
from drivetrain.resolver.collect import said_arguments
from drivetrain.resolver.legacy import LEGACY
from drivetrain.resolver.resolve import Question, resolve

GPUS = dt.Machine(cuda=8)
CPU = dt.Machine()

TRANSLATED = [
    ({"gpus": 2}, GPUS, 'plan(accelerator="gpu", devices=2)'),
    ({"gpus": "0,3"}, GPUS, 'plan(accelerator="gpu", devices="0,3")'),
    ({"gpus": [1]}, GPUS, 'plan(accelerator="gpu", devices=[1])'),
    ({"gpus": -1}, GPUS, 'plan(accelerator="gpu", devices=-1)'),
    ({"gpus": 0}, GPUS, 'plan(accelerator="cpu")'),
    ({"gpus": 4, "accelerator": "ddp"}, GPUS, 'plan(accelerator="gpu", devices=4, strategy="ddp")'),
    ({"gpus": 4, "accelerator": "gpu"}, GPUS, 'plan(accelerator="gpu", devices=4)'),
    ({"num_processes": 2}, CPU, 'plan(accelerator="cpu", devices=2)'),
    (
        {"accelerator": "ddp_cpu", "num_processes": 2},
        CPU,
        'plan(accelerator="cpu", devices=2, strategy="ddp")',
    ),
    ({"tpu_cores": 8}, dt.Machine(tpu=8), 'plan(accelerator="tpu", devices=8)'),
    ({"tpu_cores": [5]}, dt.Machine(tpu=8), 'plan(accelerator="tpu", devices=[4])'),
    (
        {"accelerator": "ddp_spawn", "gpus": 2},
        GPUS,
        'plan(accelerator="gpu", devices=2, strategy="ddp", launcher="spawn")',
    ),
    ({"ipus": 4}, dt.Machine(ipu=4), 'plan(accelerator="ipu", devices=4)'),
    ({"distributed_backend": "ddp", "gpus": 2}, GPUS, 'plan(accelerator="gpu", devices=2, strategy="ddp")'),
    (
        {"plugins": "ddp_sharded", "gpus": 2},
        GPUS,
        'plan(accelerator="gpu", devices=2, strategy="fsdp(reshard_after_forward=false)")',
    ),
    ({"plugins": dt.DDPStrategy(static_graph=True)}, CPU, 'plan(strategy="ddp(static_graph=true)")'),
    ({"amp_backend": "native", "precision": 16}, GPUS, "plan(precision=16)"),
    ({"amp_backend": "NATIVE"}, GPUS, "plan()"),
    ({"replace_sampler_ddp": False}, CPU, "plan() and Trainer(use_distributed_sampler=False)"),
    ({"replace_sampler_ddp": True}, CPU, "plan()"),
    ({"checkpoint_callback": False}, CPU, "plan() and Trainer(enable_checkpointing=False)"),
    ({"progress_bar_refresh_rate": 0}, CPU, "plan() and Trainer(enable_progress_bar=False)"),
    ({"terminate_on_nan": True}, CPU, "plan() and Trainer(detect_anomaly=True)"),
    (
        {"reload_dataloaders_every_epoch": True},
        CPU,
        "plan() and Trainer(reload_dataloaders_every_n_epochs=1)",
    ),
    ({"auto_select_gpus": False, "gpus": 1}, GPUS, 'plan(accelerator="gpu", devices=1)'),
    ({"tpu_cores": 8, "accelerator": "tpu"}, dt.Machine(tpu=8), 'plan(accelerator="tpu", devices=8)'),
    ({"ipus": 4, "accelerator": "ipu"}, dt.Machine(ipu=4), 'plan(accelerator="ipu", devices=4)'),
    ({"gpus": 0, "accelerator": "cpu"}, GPUS, 'plan(accelerator="cpu")'),
    ({"gpus": 0, "num_processes": 2}, GPUS, 'plan(accelerator="cpu", devices=2)'),
    ({"gpus": 0, "accelerator": "ddp_cpu"}, GPUS, 'plan(accelerator="cpu", strategy="ddp")'),
    (
        {"tpu_cores": 1, "strategy": "single_tpu"},
        dt.Machine(tpu=8),
        'plan(devices=1, strategy="single_tpu")',
    ),
    ({"num_processes": 2, "accelerator": "auto"}, GPUS, 'plan(accelerator="cpu", devices=2)'),
    ({"gpus": 1, "accelerator": "auto"}, dt.Machine(tpu=8, cuda=8), 'plan(accelerator="gpu", devices=1)'),
    ({"gpus": 2, "num_processes": 1}, GPUS, 'plan(accelerator="gpu", devices=2)'),
    ({"num_processes": "2"}, CPU, 'plan(accelerator="cpu", devices=2)'),
    (
        {"plugins": ["ddp", dt.PrecisionFacts("bf16-mixed")]},
        GPUS,
        'plan(strategy="ddp", plugins=[dt.PrecisionFacts("bf16-mixed")])',
    ),
    (
        {"gpus": 2, "strategy": dt.DDPStrategy(precision="bf16-mixed")},
        GPUS,
        'plan(accelerator="gpu", devices=2, strategy="ddp", precision="bf16-mixed")',
    ),
    (
        {"distributed_backend": dt.StrategySpec("ddp_spawn", devices=2, timeout_s=5.0)},
        GPUS,
        'plan(devices=2, strategy="ddp(timeout_s=5.0)", launcher="spawn")',
    ),
    (
        {"accelerator": "ddp_spawn(timeout_s=5)+tp(size=2)"},
        GPUS,
        'plan(strategy="ddp(timeout_s=5)+tp(size=2)", launcher="spawn")',
    ),
]
DEFAULTS = [
    {"num_processes": 1, "gpus": 2},
    {"weights_summary": "top"},
    {"multiple_trainloader_mode": "max_size_cycle"},
    {"amp_level": "O2"},
    {"amp_backend": "native"},
    {"flush_logs_every_n_steps": 100},
    {"progress_bar_refresh_rate": 1},
    {"process_position": 0},
    {"track_grad_norm": -1},
    {"truncated_bptt_steps": 0},
    {"replace_sampler_ddp": True},
    {"prepare_data_per_node": True},
    *(
        {name: False}
        for name in (
            "terminate_on_nan",
            "auto_lr_find",
            "auto_scale_batch_size",
            "move_metrics_to_cpu",
            "log_gpu_memory",
            "stochastic_weight_avg",
            "reload_dataloaders_every_epoch",
            "auto_select_gpus",
        )
    ),
]
"""What older Trainers had when nothing was said."""


@pytest.mark.parametrize(("flags", "machine", "call"), TRANSLATED)
def test_the_warning_prints_the_exact_new_call(flags: dict, machine: dt.Machine, call: str) -> None:
    with pytest.warns(dt.DrivetrainDeprecationWarning) as caught:
        old = dt.plan(machine=machine, **flags)
    assert all(f"write {call}\n" in str(warning.message) for warning in caught), [
        str(w.message) for w in caught
    ]
    assert all(warning.filename == __file__ for warning in caught)
    scope = {"plan": lambda **today: today, "Trainer": lambda **_: True, "dt": dt}
    today = eval(call.partition(" and ")[0], scope)  # noqa: S307 - the call that we printed ourselves
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert dt.plan(machine=machine, **today) == old


@pytest.mark.parametrize("flags", DEFAULTS)
def test_an_old_default_that_is_said_is_dropped_with_a_warning(flags: dict) -> None:
    with pytest.warns(
        dt.DrivetrainDeprecationWarning, match=r"write plan\((accelerator=\"gpu\", devices=2)?\)"
    ):
        plan = dt.plan(machine=GPUS, **flags)
    assert plan == dt.plan(machine=GPUS, **({"devices": 2} if "gpus" in flags else {}))


SOON = {
    "CSVLogger",
    "CombinedLoader",
    "DeviceStatsMonitor",
    "ModelSummary",
    "StochasticWeightAveraging",
    "TQDMProgressBar",
}
"""What the next issue brings; a name goes out of here when it is there."""


@pytest.mark.parametrize(
    ("flags", "way_out"),
    [
        ({"amp_backend": "apex"}, 'precision="16-mixed"'),
        ({"amp_level": "O1"}, 'precision="16-mixed"'),
        ({"amp_level": "o3"}, 'precision="16-true"'),
        ({"checkpoint_callback": object()}, "callbacks=["),
        ({"weights_summary": "full"}, "ModelSummary(max_depth=-1)"),
        ({"progress_bar_refresh_rate": 20}, "refresh_rate=20"),
        ({"flush_logs_every_n_steps": 10}, "CSVLogger(flush_logs_every_n_steps=10)"),
        ({"weights_save_path": "out"}, 'ModelCheckpoint(dirpath="out")'),
        ({"stochastic_weight_avg": True}, "StochasticWeightAveraging"),
        ({"track_grad_norm": 2}, "torch.nn.utils.get_total_norm("),
        ({"track_grad_norm": "inf"}, 'norm_type=float("inf")'),
        ({"auto_lr_find": True}, "dt.Tuner(trainer).lr_find(model, train_dataloaders)"),
        ({"auto_scale_batch_size": True}, "dt.Tuner(trainer).scale_batch_size(model)"),
        ({"auto_scale_batch_size": "power"}, 'dt.Tuner(trainer).scale_batch_size(model, mode="power")'),
        ({"move_metrics_to_cpu": True}, ".cpu()"),
        ({"multiple_trainloader_mode": "min_size"}, 'CombinedLoader(loaders, mode="min_size")'),
        ({"prepare_data_per_node": False}, "self.trainer.node_rank == 0"),
        ({"process_position": 1}, "process_position=1"),
        ({"log_gpu_memory": "all"}, "DeviceStatsMonitor"),
        ({"truncated_bptt_steps": 5}, "step once every 5 time steps"),
        ({"auto_select_gpus": True}, "devices=[0, 1]"),
    ],
)
def test_what_cannot_be_translated_is_refused_with_what_to_write(flags: dict, way_out: str) -> None:
    with pytest.raises(dt.PlanError) as raised:
        dt.plan(machine=CPU, **flags)
    (conflict,) = raised.value.conflicts
    assert conflict.code == "plan.legacy-refused"
    assert way_out in conflict.message
    assert list(flags) == list(conflict.flags)
    named = set(re.findall(r"\b[A-Z]+[a-z]\w*(?=\()", conflict.message))
    assert named <= {*dt.__all__} | SOON
    said = set(re.findall(r"(?<![(\w])(\w+)=", conflict.message.partition(" is gone since ")[2]))
    assert said <= {*inspect.signature(dt.Trainer).parameters, "train_dataloaders", "norm_type", "mode"}


@pytest.mark.parametrize(
    ("flags", "machine", "hints"),
    [
        ({"gpus": []}, dt.Machine(tpu=8, cuda=8), [{"devices": "auto"}, {"devices": 1}]),
        ({"gpus": 2.0}, dt.Machine(tpu=8, cuda=8), [{"devices": 2}]),
        ({"gpus": [0, 0]}, dt.Machine(tpu=8, cuda=8), [{"devices": [0]}]),
        ({"gpus": "x"}, dt.Machine(tpu=8, cuda=8), [{"devices": "auto"}]),
        ({"ipus": True}, dt.Machine(tpu=8, ipu=4), [{"devices": 1}]),
        ({"num_processes": 2.0}, GPUS, [{"devices": 2}]),
        ({"num_processes": 0}, GPUS, [{"devices": 1}]),
        ({"tpu_cores": 2}, dt.Machine(tpu=8, cuda=8), [{"devices": 8}, {"devices": 1}]),
        ({"tpu_cores": "x"}, dt.Machine(tpu=8, cuda=8), [{"devices": 8}, {"devices": 1}]),
        ({"amp_backend": "foo"}, CPU, []),
        ({"amp_level": 5}, CPU, []),
        ({"weights_summary": 3}, CPU, []),
        ({"replace_sampler_ddp": "maybe"}, CPU, []),
    ],
)
def test_what_was_never_valid_is_told_by_its_name_with_todays_flags(
    flags: dict, machine: dt.Machine, hints: list[dict]
) -> None:
    with pytest.raises(dt.PlanError) as raised:
        dt.plan(machine=machine, **flags)
    (conflict,) = raised.value.conflicts
    (name,) = flags
    assert conflict.code == "plan.legacy-value"
    assert conflict.message.startswith(name)
    assert "devices" not in conflict.message
    kind = {"gpus": "gpu", "ipus": "ipu", "num_processes": "cpu", "tpu_cores": "tpu"}.get(name)
    found = [{key: value for key, value in fix.items() if value is not UNSET} for fix in conflict.fixes]
    assert found == [{"accelerator": kind, **hint} for hint in hints]


def test_every_old_argument_is_either_translated_or_refused_in_a_test() -> None:
    """A row that no test touches is a promise that nobody checked."""
    here = {name for flags, *_ in TRANSLATED for name in flags}
    refused = test_what_cannot_be_translated_is_refused_with_what_to_write.pytestmark[0].args[1]
    here |= {name for flags, _ in refused for name in flags} | {"resume_from_checkpoint"}
    assert set(LEGACY) - here == set()


@pytest.mark.parametrize(
    ("flags", "names"),
    [
        ({"distributed_backend": "ddp", "strategy": "ddp"}, {"distributed_backend", "strategy"}),
        ({"accelerator": "ddp", "strategy": "fsdp"}, {"accelerator", "strategy"}),
        ({"plugins": "ddp", "strategy": "ddp_spawn"}, {"plugins", "strategy"}),
        ({"plugins": [dt.DDPStrategy()], "strategy": dt.DDPStrategy()}, {"plugins", "strategy"}),
        ({"distributed_backend": "ddp", "accelerator": "ddp"}, {"distributed_backend", "accelerator"}),
        ({"gpus": 2, "devices": 2}, {"gpus", "devices"}),
        ({"gpus": 1, "tpu_cores": 1}, {"gpus", "tpu_cores"}),
        ({"gpus": 0, "tpu_cores": 1}, {"gpus", "tpu_cores"}),
        ({"gpus": 0, "accelerator": "gpu"}, {"gpus", "accelerator"}),
        ({"ipus": 1, "accelerator": "tpu"}, {"ipus", "accelerator"}),
        ({"gpus": 2, "num_processes": 2}, {"gpus", "num_processes"}),
        ({"gpus": 1, "accelerator": "cpu"}, {"gpus", "accelerator"}),
        (
            {"strategy": dt.DDPStrategy(precision="bf16-mixed"), "precision": "64-true"},
            {"strategy", "precision"},
        ),
        (
            {"strategy": dt.DDPStrategy(precision=32), "plugins": dt.PrecisionFacts("32-true")},
            {"strategy", "plugins"},
        ),
        ({"precision": 16, "plugins": [dt.PrecisionFacts("16-mixed")]}, {"plugins", "precision"}),
        ({"sync_batchnorm": True, "plugins": dt.LayerSyncFacts("mine")}, {"sync_batchnorm", "plugins"}),
        ({"strategy": "ddp_spawn", "launcher": "fork"}, {"strategy", "launcher"}),
        ({"plugins": [dt.PrecisionFacts("a"), dt.PrecisionFacts("b")]}, {"plugins", "plugins again"}),
        (
            {"strategy": dt.SingleStrategy(accelerator="cuda"), "accelerator": "cpu"},
            {"strategy", "accelerator"},
        ),
        ({"strategy": dt.DDPStrategy(devices=2), "devices": 4}, {"strategy", "devices"}),
    ],
)
def test_a_thing_said_twice_is_one_error_that_names_both_flags(flags: dict, names: set) -> None:
    with pytest.raises(dt.PlanError) as raised:
        dt.plan(machine=dt.Machine(cuda=4, tpu=8), **flags)
    twice = [conflict for conflict in raised.value.conflicts if conflict.code == "plan.said-twice"]
    assert any(set(conflict.flags) == names for conflict in twice), str(raised.value)


@pytest.mark.filterwarnings("ignore::drivetrain.DrivetrainDeprecationWarning")
def test_the_sharded_plugin_beside_ddp_was_the_documented_spelling() -> None:
    plan = dt.plan(machine=CPU, accelerator="ddp_spawn", plugins="ddp_sharded", num_processes=2)
    assert (plan.strategy.name, plan.launcher, plan.world_size) == ("fsdp", "spawn", 2)


def test_past_its_release_a_translation_is_an_error_with_the_same_text() -> None:
    asked = said_arguments({"gpus": 2, "accelerator": "ddp"}, "Trainer({})")
    today = resolve(Question(asked, GPUS, shipped(), "0.1.0"))
    with pytest.raises(dt.PlanError) as raised:
        resolve(Question(asked, GPUS, shipped(), "1.0.0"))
    call = 'write Trainer(accelerator="gpu", devices=2, strategy="ddp")'
    assert all(call in notice.message for notice in today.plan.notices)
    assert [conflict.code for conflict in raised.value.conflicts] == ["plan.legacy-removed"] * 2
    assert all(call in conflict.message for conflict in raised.value.conflicts)
    assert raised.value.conflicts[0].fixes


def test_what_moved_to_another_call_is_printed_beside_it() -> None:
    with pytest.warns(dt.DrivetrainDeprecationWarning) as caught:
        dt.plan(machine=CPU, resume_from_checkpoint="a.ckpt", devices=2)
    assert 'write plan(devices=2) and trainer.fit(model, ckpt_path="a.ckpt")\n' in str(caught[0].message)


def test_the_new_call_has_the_trainers_other_arguments() -> None:
    with pytest.warns(dt.DrivetrainDeprecationWarning) as caught:
        dt.Trainer(
            resume_from_checkpoint="x.ckpt", checkpoint_callback=False, max_epochs=1, default_root_dir="runs"
        )
    call = (
        'write Trainer(max_epochs=1, default_root_dir="runs", enable_checkpointing=False) '
        'and trainer.fit(model, ckpt_path="x.ckpt")\n'
    )
    assert all(call in str(warning.message) for warning in caught)


@pytest.mark.parametrize(
    ("old", "today"),
    [
        ({"terminate_on_nan": True}, "detect_anomaly=True"),
        ({"reload_dataloaders_every_epoch": True}, "reload_dataloaders_every_n_epochs=1"),
        ({"replace_sampler_ddp": False}, "use_distributed_sampler=False"),
        ({"checkpoint_callback": False}, "enable_checkpointing=False"),
        ({"checkpoint_callback": True}, "enable_checkpointing=True"),
        ({"progress_bar_refresh_rate": 0}, "enable_progress_bar=False"),
    ],
)
def test_the_trainer_takes_what_it_prints_for_an_old_argument(old: dict, today: str) -> None:
    with pytest.warns(dt.DrivetrainDeprecationWarning) as caught:
        dt.Trainer(accelerator="cpu", devices=1, **old)
    call = f'Trainer(accelerator="cpu", devices=1, {today})'
    assert f"write {call}\n" in str(caught[0].message)
    assert isinstance(eval(call, {"Trainer": dt.Trainer}), dt.Trainer)  # noqa: S307 - the call that we printed


def test_the_trainer_gets_old_arguments_under_todays_names() -> None:
    asked = said_arguments({"checkpoint_callback": False, "resume_from_checkpoint": "a.ckpt"}, "Trainer({})")
    resolution = resolve(Question(asked, CPU, shipped(), "0.1.0"))
    assert resolution.trainer_arguments == {"enable_checkpointing": False, "resume_from_checkpoint": "a.ckpt"}


def test_a_translated_value_says_where_it_came_from() -> None:
    with pytest.warns(dt.DrivetrainDeprecationWarning):
        plan = dt.plan(machine=GPUS, gpus=2)
    assert plan.sources["devices"].origin is Origin.LEGACY
    assert plan.sources["devices"].reason.startswith("gpus=2, plan(gpus=2), test_legacy.py:")


def test_todays_spellings_warn_of_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for strategy in ("ddp_spawn", "fsdp_cpu_offload", "DDP", "single_device"):
            dt.plan(machine=dt.Machine(cuda=1), strategy=strategy)


def test_a_misspelt_flag_names_the_nearest() -> None:
    with pytest.raises(dt.PlanError, match="there is no flag 'device'; the nearest is 'devices'") as raised:
        dt.plan(machine=CPU, device=2)
    assert dict(raised.value.conflicts[0].fixes[0])["devices"] == 2
    assert isinstance(raised.value.conflicts[0].flags["device"], Sourced)
