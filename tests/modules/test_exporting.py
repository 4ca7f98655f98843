"""A module in other formats: what was written is run, and gives what the module gives."""

from __future__ import annotations

import io
import sys
import types
from importlib.machinery import ModuleSpec
from typing import Any

import numpy as np
import pytest
import torch

import drivetrain as dt
import drivetrain.compat.lightning as pl
from drivetrain.machine import installed
from tests.loops.models import Regression, loader, quiet

# As torch's exporters are today, beside what we call.
pytestmark = [
    pytest.mark.filterwarnings("ignore:`torch.jit.*` is deprecated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:torch.*"),
    pytest.mark.filterwarnings("ignore:You are using the legacy TorchScript-based:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.isinstance.treespec, LeafSpec:FutureWarning"),
]


class Net(Regression):
    """Dropout and batch norm, so that the mode shows; logs from forward, as nothing may be noted of it."""

    def __init__(self) -> None:
        super().__init__(dropout=0.5)
        self.norm = torch.nn.BatchNorm1d(1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(self.net(x))


class Two(dt.Module):
    """Takes two arguments."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(3, 2)
        self.example_input_array = {"x": torch.ones(2, 3), "scale": torch.tensor(2.0)}

    def forward(self, x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        return self.linear(x) * scale


def fresh(tmp_path: Any) -> dt.Module:
    return Net()


def attached(tmp_path: Any) -> dt.Module:
    module = Net()
    quiet(max_epochs=1).fit(module, loader(40))
    assert module.trainer is not None
    return module


def loaded(tmp_path: Any) -> dt.Module:
    trainer = quiet(max_epochs=1)
    trainer.fit(Net(), loader(40))
    trainer.save_checkpoint(tmp_path / "one.ckpt")
    return Net.load_from_checkpoint(tmp_path / "one.ckpt")


def lightnings(tmp_path: Any) -> pl.LightningModule:
    class Model(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net = torch.nn.Sequential(torch.nn.Linear(4, 1), torch.nn.Dropout(0.5))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.net(x)

    return Model()


KINDS = pytest.mark.parametrize("make", [fresh, attached, loaded, lightnings])
SAMPLE = torch.randn(5, 4, generator=torch.Generator().manual_seed(1))


def outputs(module: dt.Module) -> torch.Tensor:
    modes = [part.training for part in module.modules()]
    with torch.no_grad():
        found = module.eval()(SAMPLE)
    for part, mode in zip(module.modules(), modes, strict=True):
        part.training = mode
    return found


def run_onnx(model: str | bytes, *arrays: Any) -> torch.Tensor:
    import onnxruntime

    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    names = [one.name for one in session.get_inputs()]
    return torch.from_numpy(session.run(None, dict(zip(names, map(np.asarray, arrays), strict=True)))[0])


@KINDS
def test_an_onnx_file_gives_what_the_module_gives(tmp_path, make):
    module = make(tmp_path)
    module.train()
    module.net[0].eval()
    state = torch.get_rng_state()
    program = module.to_onnx(tmp_path / "net.onnx", SAMPLE)
    assert program is not None
    assert torch.equal(torch.get_rng_state(), state)
    assert module.training
    assert not module.net[0].training
    assert all(one.requires_grad for one in module.parameters())
    torch.testing.assert_close(run_onnx(str(tmp_path / "net.onnx"), SAMPLE), outputs(module))


def test_onnx_takes_the_modules_example_and_writes_a_stream(tmp_path):
    module = Two()
    stream = io.BytesIO()
    module.to_onnx(stream)
    found = run_onnx(stream.getvalue(), torch.full((2, 3), 3.0), torch.tensor(4.0))
    torch.testing.assert_close(found, module(torch.full((2, 3), 3.0), torch.tensor(4.0)).detach())


def test_the_older_exporter_of_onnx_writes_files_and_streams(tmp_path):
    module = Net()
    stream = io.BytesIO()
    module.to_onnx(stream, SAMPLE, dynamo=False)
    module.to_onnx(str(tmp_path / "net.onnx"), SAMPLE, dynamo=False, input_names=["x"])
    for model in (stream.getvalue(), str(tmp_path / "net.onnx")):
        torch.testing.assert_close(run_onnx(model, SAMPLE), outputs(module))


@pytest.mark.parametrize("keywords", [{}, {"dynamo": False}])
def test_a_missing_package_is_named(monkeypatch, keywords):
    monkeypatch.setattr(installed, "has_module", lambda name: not name.startswith("onnx"))
    needed = "onnx" if keywords else "onnxscript"
    with pytest.raises(dt.BuildError, match=rf"build\.package-missing\] to_onnx needs {needed},"):
        Net().to_onnx("net.onnx", SAMPLE, **keywords)


@KINDS
@pytest.mark.parametrize("method", ["script", "trace"])
def test_torchscript_gives_what_the_module_gives(tmp_path, make, method):
    module = make(tmp_path)
    module.train()
    made = module.to_torchscript(tmp_path / "net.pt", method, SAMPLE)
    assert module.training
    again = torch.jit.load(tmp_path / "net.pt")
    for one in (made, again):
        assert not one.training
        torch.testing.assert_close(one(SAMPLE), outputs(module))


def test_torchscript_traces_an_example_by_name():
    module = Two()
    made = module.to_torchscript(method="trace")
    given = torch.full((2, 3), 3.0), torch.tensor(4.0)
    torch.testing.assert_close(made(x=given[0], scale=given[1]), module(*given))


def test_torchs_own_warning_is_not_silenced():
    with pytest.warns(DeprecationWarning, match="torch.jit.script"):
        Net().to_torchscript()


def test_the_module_is_as_it_was_when_an_export_fails(tmp_path):
    class Failing(Net):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            message = "no"
            raise ValueError(message)

    module = Failing()
    with pytest.raises(ValueError, match="no"):
        module.to_torchscript(method="trace", example_inputs=SAMPLE)
    with pytest.raises(Exception, match="no"):
        module.to_onnx(tmp_path / "net.onnx", SAMPLE)
    assert module.training
    assert torch.is_grad_enabled()
    assert module._recorder is None


@pytest.mark.parametrize("verb", ["to_onnx", "to_tensorrt", "to_torchscript"])
def test_without_an_example_the_way_out_is_said(monkeypatch, verb):
    fake_tensorrt(monkeypatch)
    named = {"method": "trace"} if verb == "to_torchscript" else {}
    with pytest.raises(dt.ModuleError, match=rf"module\.no-example\] {verb} of Net") as found:
        getattr(Net(), verb)(**named)
    assert f"pass one to {verb}" in str(found.value)


def test_an_unknown_method_of_torchscript_is_refused():
    with pytest.raises(dt.ModuleError, match=r"module\.export-method.*'compile'"):
        Net().to_torchscript(method="compile")


def test_what_forward_logs_during_an_export_is_nobodys(tmp_path):
    class Logging(Net):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            out = super().forward(x)
            self.log("mean", out.mean())
            return out

        def on_train_epoch_end(self) -> None:
            before = dict(self.trainer.callback_metrics)
            self.to_torchscript(method="trace", example_inputs=SAMPLE)
            self.to_onnx(tmp_path / "net.onnx", SAMPLE)
            assert self.trainer.callback_metrics == before
            self.exported = True

    module = Logging()
    quiet(max_epochs=1).fit(module, loader(40))
    assert module.exported
    torch.testing.assert_close(
        run_onnx(str(tmp_path / "net.onnx"), SAMPLE), Net.forward(module.eval(), SAMPLE).detach()
    )


def fake_tensorrt(monkeypatch: Any) -> list[Any]:
    """Stand in for torch_tensorrt, which runs on CUDA only; note what it is told."""
    calls: list[Any] = []
    module = types.ModuleType("torch_tensorrt")
    module.__spec__ = ModuleSpec("torch_tensorrt", None)

    def compiled(model: Any, **named: Any) -> Any:
        calls.append(("compile", model.training, torch.is_grad_enabled(), named))
        return model

    module.compile = compiled
    module.save = lambda model, path, **named: calls.append(("save", path, named))
    monkeypatch.setitem(sys.modules, "torch_tensorrt", module)
    return calls


def test_tensorrt_is_told_what_it_takes(monkeypatch, tmp_path):
    calls, module = fake_tensorrt(monkeypatch), Net()
    assert module.to_tensorrt(tmp_path / "net.ep", SAMPLE, enabled_precisions={torch.half}) is module
    (_, training, grad, named), (_, path, saved) = calls
    assert (training, grad) == (False, False)
    assert torch.equal(named["inputs"][0], SAMPLE)
    assert named["ir"] == "default"
    assert named["enabled_precisions"] == {torch.half}
    assert path == str(tmp_path / "net.ep")
    assert (saved["output_format"], saved["retrace"]) == ("exported_program", False)
    assert module.training


def test_tensorrt_through_torchscript_is_written_as_torchscript(monkeypatch, tmp_path):
    fake_tensorrt(monkeypatch)
    module = Net()
    module.to_tensorrt(tmp_path / "net.ts", SAMPLE, ir="ts")
    torch.testing.assert_close(torch.jit.load(tmp_path / "net.ts")(SAMPLE), outputs(module))


def test_tensorrt_that_is_not_there_is_named():
    with pytest.raises(dt.BuildError, match=r"to_tensorrt needs torch_tensorrt, which is not installed"):
        Net().to_tensorrt(input_sample=SAMPLE)
