"""Old class names: today's strategy or plug-in with the new call in a warning, or a refusal with it."""

from __future__ import annotations

import warnings
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook

import drivetrain as dt
from drivetrain.resolver.old_classes import OLD_NAMES
from drivetrain.resolver.old_names import old_class
from tests.resolver.test_laws import anything, real

GPUS = dt.Machine(cuda=8)
EVERYTHING = dt.Machine(cuda=8, tpu=8, hpu=8, ipu=4)
CUDA = torch.device("cuda:1")


def named(state: Any, bucket: Any) -> Any:
    """Stand for a hook of the user's."""


def called(name: str, *given: Any, **named: Any) -> tuple[Any, str]:
    """Call an old class; return what it gives and the arguments that its warning prints."""
    with pytest.warns(dt.DrivetrainDeprecationWarning, match=f"{name} is an old name since 0.1") as caught:
        made = getattr(dt, name)(*given, **named)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    return made, str(caught[0].message).partition("; write ")[2].partition("\n")[0]


CALLS: list[tuple[str, tuple, dict, str]] = [
    ("DDPPlugin", (), {}, 'strategy="ddp"'),
    ("DDPPlugin", ([CUDA],), {}, 'accelerator="cuda", devices=[1], strategy="ddp"'),
    (
        "DDPPlugin",
        (),
        {"parallel_devices": [torch.device("cuda:0"), torch.device("cuda:3")], "num_nodes": 2},
        'accelerator="cuda", devices=[0, 3], num_nodes=2, strategy="ddp"',
    ),
    (
        "DDPPlugin",
        (),
        {"parallel_devices": [torch.device("cpu")] * 2},
        'accelerator="cpu", devices=2, strategy="ddp"',
    ),
    ("DDPPlugin", (), {"find_unused_parameters": False}, 'strategy="ddp(find_unused_parameters=false)"'),
    ("DDPPlugin", (), {"sync_batchnorm": True}, 'strategy="ddp", sync_batchnorm=True'),
    (
        "DDPSpawnPlugin",
        (),
        {"timeout": timedelta(minutes=5)},
        'strategy="ddp(timeout_s=300.0)", launcher="spawn"',
    ),
    (
        "DDPSpawnStrategy",
        ("gpu", [CUDA]),
        {},
        'accelerator="cuda", devices=[1], strategy="ddp", launcher="spawn"',
    ),
    ("SingleDevicePlugin", ("cuda:1",), {}, 'accelerator="cuda", devices=[1], strategy="single"'),
    ("SingleDevicePlugin", (CUDA,), {}, 'accelerator="cuda", devices=[1], strategy="single"'),
    ("SingleDevicePlugin", (), {"device": 1}, 'accelerator="gpu", devices=[1], strategy="single"'),
    ("SingleDeviceStrategy", ("cpu",), {}, 'accelerator="cpu", strategy="single"'),
    ("SingleDeviceStrategy", ("cuda",), {}, 'accelerator="cuda", strategy="single"'),
    ("SingleTPUPlugin", (), {}, 'accelerator="tpu", strategy="single"'),
    # The numbers of TPU cores began at 1, as in tpu_cores=[3].
    ("SingleTPUPlugin", (), {"device": 3}, 'accelerator="tpu", devices=[2], strategy="single"'),
    ("SingleTPUStrategy", ("xla:1",), {}, 'accelerator="tpu", devices=[0], strategy="single"'),
    ("SingleXLAStrategy", (3,), {}, 'accelerator="tpu", devices=[3], strategy="single"'),
    ("SingleHPUStrategy", ("hpu",), {}, 'accelerator="hpu", strategy="single"'),
    ("HPUParallelStrategy", (), {}, 'accelerator="hpu", strategy="ddp"'),
    ("TPUSpawnPlugin", (), {"debug": True}, 'strategy="xla(debug=true)"'),
    ("IPUPlugin", (), {}, 'strategy="ipu"'),
    ("DeepSpeedPlugin", (True,), {}, 'strategy="deepspeed"'),
    ("DeepSpeedPlugin", (False,), {}, 'strategy="deepspeed(stage=0)"'),
    (
        "DeepSpeedPlugin",
        (),
        {"stage": 3, "cpu_offload": True},
        'strategy="deepspeed(offload_optimizer=cpu, stage=3)"',
    ),
    ("DeepSpeedPlugin", (), {"offload_optimizer": False, "remote_device": "cpu"}, 'strategy="deepspeed"'),
    (
        "DeepSpeedPlugin",
        (True, 3),
        {
            "offload_optimizer": True,
            "offload_optimizer_device": "nvme",
            "offload_parameters": True,
            "nvme_path": "/nvme",
        },
        'strategy="deepspeed(nvme_path=/nvme, offload_optimizer=nvme, offload_parameters=cpu, stage=3)"',
    ),
    (
        "DDPShardedPlugin",
        (),
        {"find_unused_parameters": False},
        'strategy="fsdp(reshard_after_forward=false)"',
    ),
    ("DDPFullyShardedPlugin", (True,), {}, 'strategy="fsdp(cpu_offload=true)"'),
    ("ModelParallelStrategy", (), {"tensor_parallel_size": 2}, 'strategy="fsdp+tp(size=2)"'),
]


@pytest.mark.parametrize(("name", "given", "named", "today"), CALLS)
def test_an_old_class_prints_the_arguments_that_mean_the_same(
    name: str, given: tuple, named: dict, today: str
) -> None:
    spec, printed = called(name, *given, **named)
    assert printed == today
    now = eval(f"dict({printed})", {"dt": dt})  # noqa: S307 - the arguments that we printed ourselves
    # A strategy that names no hardware gets the one that it runs on.
    more = {"accelerator": "cuda"} if spec.name.split("+")[0] in ("ddp", "fsdp", "deepspeed") else {}
    more |= {"devices": -1}
    more = {flag: value for flag, value in more.items() if flag not in now}
    if spec.name == "single":
        more.pop("devices", None)
    ours = dt.plan(machine=EVERYTHING, strategy=spec, **more)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert dt.plan(machine=EVERYTHING, **now, **more) == ours


@pytest.mark.parametrize("name", OLD_NAMES)
def test_every_old_class_is_translated_in_a_test_or_refused_with_what_to_write(name: str) -> None:
    row = OLD_NAMES[name]
    if row.refused:
        for given in ((), (1, 2, 3)):
            with pytest.raises(dt.PlanError, match=r'gone since 0\.1: .*; write \w+="') as raised:
                getattr(dt, name)(*given, anything=5)
            assert raised.value.conflicts[0].code == "plan.legacy-refused"
            assert raised.value.conflicts[0].fixes
        return
    precision = ["16-true" if name == "HalfPrecision" else 16] if row.plugin == ("precisions", "") else []
    made, printed = called(name, *precision)
    machine = EVERYTHING
    if row.plugin:
        machine = dt.Machine(cuda=8, variables=_started(row.plugin))
        plan = dt.plan(machine=machine, plugins=[made])
        now = eval(f"dict({printed})", {"dt": dt})  # noqa: S307 - as above
        assert dt.plan(machine=machine, **now) == plan
    elif name != "ModelParallelStrategy":  # which says no size
        kinds = ("tpu", "ipu", "hpu", "cuda")
        kind = next((kind for kind in kinds if name.removeprefix("Single").startswith(kind.upper())), "cuda")
        given = {} if "accelerator" in made.parts else {"accelerator": kind}
        devices = 1 if made.name == "single" else -1
        assert dt.plan(machine=machine, strategy=made, devices=devices, **given).strategy == made


def _started(plugin: tuple[str, str] | None) -> dict[str, str]:
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK")
    values = ("0", "8", "0", "8", "0")
    return dict(zip(names, values, strict=True)) if plugin == ("environments", "torchrun") else {}


@pytest.mark.parametrize(
    ("name", "given", "flag", "value", "printed"),
    [
        ("NativeMixedPrecisionPlugin", (16, "cuda"), "precision", "16-mixed", 'precision="16-mixed"'),
        ("MixedPrecisionPlugin", ("bf16", "cuda"), "precision", "bf16-mixed", 'precision="bf16-mixed"'),
        ("DoublePrecisionPlugin", (), "precision", "64-true", 'precision="64-true"'),
        ("LightningEnvironment", (), "environment", "none", 'environment="none"'),
        ("TorchCheckpointIO", (), "checkpoint_io", "local", "plugins=[dt.LocalCheckpointIO()]"),
        ("NativeSyncBatchNorm", (), "layer_sync", "batchnorm", "sync_batchnorm=True"),
    ],
)
def test_an_old_plugin_is_todays_name(name: str, given: tuple, flag: str, value: str, printed: str) -> None:
    made, today = called(name, *given)
    assert today == printed
    plan = dt.plan(machine=GPUS, plugins=[made])
    assert getattr(plan, flag) == value
    assert plan.sources[flag if flag in plan.sources else "sync_batchnorm"].origin is dt.Origin.OBJECT


def test_old_plugins_run_as_what_they_stand_for() -> None:
    """Their facts are a name: the run-time is the shipped one, not the facts themselves."""
    made, _ = called("TorchCheckpointIO")
    trainer = dt.Trainer(accelerator="cpu", devices=1, plugins=[made])
    assert trainer.plan.checkpoint_io == "local"
    assert trainer._resolution.objects == {}  # what building would take instead


@pytest.mark.parametrize(
    ("name", "given", "named", "code"),
    [
        ("DDPPlugin", ([CUDA], 2), {}, "plan.legacy-value"),
        ("DDPPlugin", ([CUDA],), {"parallel_devices": [CUDA]}, "plan.legacy-value"),
        ("DDPPlugin", (5,), {}, "plan.legacy-value"),
        ("DDPPlugin", ([CUDA, torch.device("cpu")],), {}, "plan.legacy-value"),
        ("DDPPlugin", ([torch.device("cuda")] * 2,), {}, "plan.legacy-value"),
        ("DDPPlugin", (), {"timeout": 5}, "plan.legacy-value"),
        ("DDPPlugin", (), {"ddp_comm_hook": print}, "plan.legacy-value"),
        ("DDPPlugin", (), {"ddp_comm_hook": lambda state, bucket: None}, "plan.legacy-value"),
        ("DDPPlugin", (), {"ddp_comm_state": object()}, "plan.legacy-value"),
        ("DDPPlugin", (), {"ddp_comm_wrapper": print}, "plan.strategy-option"),
        ("DDPPlugin", (), {"find_unused_parameters": 1}, "plan.strategy-option"),
        ("DDPPlugin", (), {"cluster_environment": "slurm", "environment": "none"}, "plan.said-twice"),
        ("DDPShardedPlugin", (), {"find_unused_parameters": True}, "plan.legacy-value"),
        ("DDPShardedPlugin", (), {"reshard_after_forward": True}, "plan.said-twice"),
        ("SingleDevicePlugin", ("1",), {}, "plan.legacy-value"),
        ("SingleDevicePlugin", (True,), {}, "plan.legacy-value"),
        ("SingleDevicePlugin", (-1,), {}, "plan.legacy-value"),
        ("SingleDevicePlugin", ("cuda:x",), {}, "plan.legacy-value"),
        ("SingleDevicePlugin", ("cuda:",), {}, "plan.legacy-value"),
        ("SingleDevicePlugin", (10**6000,), {}, "plan.legacy-value"),
        ("SingleDevicePlugin", ("cuda:" + "9" * 6000,), {}, "plan.legacy-value"),
        ("SingleTPUPlugin", (0,), {}, "plan.legacy-value"),
        ("SingleTPUPlugin", ("cuda:1",), {}, "plan.said-twice"),
        ("SingleTPUPlugin", (), {"accelerator": "cpu"}, "plan.said-twice"),
        ("SingleDeviceStrategy", ("cuda:1", "cpu"), {}, "plan.said-twice"),
        ("DeepSpeedPlugin", (True, 2, "cpu"), {}, "plan.legacy-value"),
        ("DeepSpeedPlugin", (False, 2), {}, "plan.legacy-value"),
        ("DeepSpeedPlugin", ("yes",), {}, "plan.legacy-value"),
        ("DeepSpeedPlugin", (), {"cpu_offload": True, "offload_optimizer": "nvme"}, "plan.said-twice"),
        ("DeepSpeedPlugin", (), {"remote_device": "nvme"}, "plan.legacy-value"),
        (
            "ModelParallelStrategy",
            (),
            {"tensor_parallel_size": 2, "data_parallel_size": 2},
            "plan.legacy-value",
        ),
        ("NativeMixedPrecisionPlugin", (32,), {}, "plan.legacy-value"),
        ("NativeMixedPrecisionPlugin", (True,), {}, "plan.legacy-value"),
        ("HalfPrecision", (16,), {}, "plan.legacy-value"),
        ("FSDPPrecision", ("no",), {}, "plan.legacy-value"),
        ("NativeMixedPrecisionPlugin", (16, "cuda", object()), {}, "plan.legacy-value"),
        ("TorchCheckpointIO", (), {"folder": "x"}, "plan.legacy-value"),
    ],
)
def test_what_an_old_class_cannot_keep_is_refused_by_name(
    name: str, given: tuple, named: dict, code: str
) -> None:
    with pytest.raises(dt.PlanError) as raised:
        getattr(dt, name)(*given, **named)
    assert [conflict.code for conflict in raised.value.conflicts] == [code]
    assert str(raised.value)


KEYWORDS = sorted({key for row in OLD_NAMES.values() for key in (*row.keywords, *row.positional)})


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from([*OLD_NAMES]),
    st.lists(anything, max_size=3),
    st.dictionaries(st.sampled_from([*KEYWORDS, "stage", "zzz"]), anything, max_size=3),
)
def test_any_arguments_give_a_strategy_or_a_plan_error(name: str, given: list, named: dict) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dt.DrivetrainDeprecationWarning)
        try:
            made = getattr(dt, name)(*map(real, given), **{key: real(value) for key, value in named.items()})
            answer = dt.plan(machine=GPUS, **{"plugins" if OLD_NAMES[name].plugin else "strategy": made})
        except dt.PlanError as error:
            answer = error
    assert str(answer)


def test_a_hint_says_what_it_leaves_out() -> None:
    with pytest.raises(dt.PlanError, match="the hint is without ddp_comm_wrapper"):
        dt.DDPPlugin(ddp_comm_wrapper=print, static_graph=True)


def test_an_old_class_in_plugins_and_in_a_composition_keeps_what_it_says() -> None:
    spec, _ = called("DDPSpawnPlugin")
    both = spec + dt.TPStrategy(size=2)
    assert dt.plan(machine=GPUS, strategy=both).launcher == "spawn"
    with pytest.warns(
        dt.DrivetrainDeprecationWarning, match=r'write plan\(strategy="ddp", launcher="spawn"\)'
    ):
        assert dt.plan(machine=GPUS, plugins=[spec]).launcher == "spawn"
    with pytest.raises(dt.PlanError, match="accelerator is said twice"):
        dt.plan(machine=GPUS, strategy=called("SingleDevicePlugin", "cuda:1")[0], accelerator="cpu")


def test_an_accelerator_object_beside_its_device_is_kept() -> None:
    mine = dt.AcceleratorFacts("cuda", is_gpu=True)
    spec, _ = called("SingleDeviceStrategy", "cuda:1", mine)
    assert spec.parts["accelerator"] is mine


def test_past_its_release_an_old_class_is_an_error_with_the_same_text() -> None:
    make = old_class("DDPPlugin", "1.0.0")
    assert make is not None
    with pytest.raises(
        dt.PlanError, match=r'DDPPlugin is an old name since 0\.1 and ends with 1\.0; write strategy="ddp"'
    ):
        make()
    assert old_class("NoSuchName") is None


def test_comm_hooks_are_said_by_name() -> None:
    state = SimpleNamespace(matrix_approximation_rank=2, start_powerSGD_iter=10)
    for arguments, options in (
        ({"ddp_comm_hook": default_hooks.fp16_compress_hook}, {"comm_hook": "fp16"}),
        (
            {"ddp_comm_hook": powerSGD_hook.powerSGD_hook, "ddp_comm_state": state},
            {"comm_hook": "powersgd", "powersgd_rank": 2, "powersgd_start": 10},
        ),
        ({"ddp_comm_hook": named}, {"comm_hook": f"{__name__}:named"}),
        ({"ddp_comm_hook": None, "ddp_comm_state": None}, {}),
    ):
        spec, _ = called("DDPPlugin", **arguments)
        assert dict(spec.options) == options
