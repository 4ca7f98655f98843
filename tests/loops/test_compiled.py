"""torch.compile around a module, a step or a part of it: the same run, one graph, no step that waits."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
import torchmetrics
from torch._dynamo.testing import CompileCounterWithBackend
from torch.utils._python_dispatch import TorchDispatchMode

import drivetrain as dt
import drivetrain.compat.lightning as pl
from drivetrain.loops.compiled import metrics_outside, uncompiled
from tests.loops.models import Regression, differing, loader, quiet

BACKENDS = ("eager", "aot_eager")
# At a break torch looks for gradients of what is alive, and hides that it is warned, but not from an error.
BREAKS = pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning")


@pytest.fixture(autouse=True)
def fresh():
    torch.compiler.reset()
    yield
    torch.compiler.reset()


class Kept(dt.Callback):
    """Every step's values, as a callback sees them."""

    def __init__(self) -> None:
        self.rows: list[dict[str, float]] = []

    def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
        self.rows.append({name: float(value) for name, value in trainer.callback_metrics.items()})


class Logging(Regression):
    """Logs tensors, numbers and both ways; also from forward."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = super().forward(x)
        if self.training:
            self.log("mean", out.mean(), prog_bar=True)
        return out

    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        loss = self.loss(batch)
        self.log("loss", loss, on_step=True, on_epoch=True)
        self.log_dict({"twice": loss * 2, "size": float(batch[0].shape[0]), "one": 1}, on_epoch=True)
        return loss

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        self.log("val", self.loss(batch))


class Measuring(Regression):
    """Logs a torchmetrics object, called in the step."""

    def __init__(self) -> None:
        super().__init__()
        self.error = torchmetrics.MeanSquaredError()
        self.several = torchmetrics.MetricCollection({"absolute": torchmetrics.MeanAbsoluteError()})

    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        x, y = batch
        out = self(x)
        self.error(out, y)
        self.several(out, y)
        self.log("error", self.error, on_step=True, on_epoch=True)
        self.log("absolute", self.several["absolute"], on_step=False, on_epoch=True)
        return ((out - y) ** 2).mean()


def run(module: Any, **kwargs: Any) -> tuple[dt.Trainer, list[dict[str, float]]]:
    kept = Kept()
    # Batches of one size, as another size is another graph, of which torch may make one for all sizes.
    given = {"max_epochs": 3, "callbacks": [kept], "limit_train_batches": 9, "limit_val_batches": 9, **kwargs}
    trainer = quiet(**given)
    trainer.fit(module, loader(), loader())
    return trainer, kept.rows


def whole(module: dt.Module, backend: Any, **options: Any) -> Any:
    return torch.compile(module, backend=backend, **options)


def step(module: dt.Module, backend: Any, **options: Any) -> Any:
    module.training_step = torch.compile(module.training_step, backend=backend, **options)
    return module


def in_place(module: dt.Module, backend: Any, **options: Any) -> Any:
    module.compile(backend=backend, **options)
    return module


def part(module: dt.Module, backend: Any, **options: Any) -> Any:
    module.net = torch.compile(module.net, backend=backend, **options)
    return module


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("way", [whole, step, in_place, part])
def test_a_compiled_run_logs_what_the_plain_one_logs(way, backend):
    counter = CompileCounterWithBackend(backend)
    plain, rows = run(Logging())
    trainer, compiled_rows = run(way(Logging(), counter))
    assert compiled_rows == rows
    assert len(rows) == 27
    assert {"loss_step", "loss", "twice", "size", "one", "val"} <= rows[-1].keys()
    assert differing(dict(trainer.callback_metrics), dict(plain.callback_metrics)) == []
    # of 27 batches to train and 27 to validate; `step` compiles only the training
    assert counter.frame_count == (1 if way is step else 2)


@pytest.mark.parametrize("way", [whole, step])
def test_logging_leaves_the_graph_whole(way):
    counter = CompileCounterWithBackend("aot_eager")
    _, rows = run(way(Logging(), counter, fullgraph=True))
    assert rows == run(Logging())[1]
    assert counter.frame_count <= 2


@BREAKS
@pytest.mark.parametrize("backend", BACKENDS)
def test_metrics_in_a_compiled_step_are_counted_outside_of_it(backend):
    counter = CompileCounterWithBackend(backend)
    plain, rows = run(Measuring())
    with torch._dynamo.config.patch(error_on_recompile=True):
        trainer, compiled_rows = run(whole(Measuring(), counter))
    assert compiled_rows == rows
    assert {"error_step", "error_epoch", "absolute"} <= rows[-1].keys()
    assert differing(dict(trainer.callback_metrics), dict(plain.callback_metrics)) == []
    assert counter.frame_count <= 4


@BREAKS
def test_metrics_in_one_whole_graph_are_refused_by_torch_with_the_reason():
    with pytest.raises(torch._dynamo.exc.Unsupported, match="compiled anew each step"):
        run(step(Measuring(), "eager", fullgraph=True))


def test_metrics_are_their_own_again_after_a_run_and_copies_count_for_themselves():
    module = Measuring()
    update, forward = vars(module.error)["update"], module.error.forward
    with metrics_outside(module):
        twin = copy.deepcopy(module)
        twin.error(torch.ones(2), torch.zeros(2))
        twin.several(torch.ones(2), torch.zeros(2))
        assert not module.error.update_called
        assert not module.several["absolute"].update_called
        assert float(twin.error.compute()) == 1.0
    assert vars(module.error)["update"] is update
    assert module.error.forward == forward
    assert "forward" not in vars(module.error)
    assert "update" not in vars(module.several)


@pytest.mark.parametrize("kind", [dt.Module, pl.LightningModule])
def test_counters_of_the_run_in_a_compiled_step_are_dynamic_where_torch_is_told(kind):
    class Counting(kind):
        def __init__(self) -> None:
            super().__init__()
            self.net = torch.nn.Linear(4, 1)

        def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
            loss = self.net(batch[0]).square().mean()
            self.log("loss", loss)
            self.log("step", self.global_step)
            return loss * (self.global_step + 1) if self.current_epoch >= 0 else loss

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), 0.01)

    seen = []
    for way in (lambda one, _: one, step):
        counter = CompileCounterWithBackend("eager")
        torch.manual_seed(0)
        with torch._dynamo.config.patch(allow_unspec_int_on_nn_module=True):
            seen.append(run(way(Counting(), counter))[1])
    assert seen[0] == seen[1]
    assert counter.frame_count <= 3


class Reads(TorchDispatchMode):
    """Counts what makes a device wait: a tensor that becomes a number."""

    num = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.num += func is torch.ops.aten._local_scalar_dense.default
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("way", [lambda one, _: one, step])
def test_no_step_waits_for_a_logged_value(way):
    class Watched(dt.Callback):
        num = -1

        def on_train_batch_end(
            self, trainer: Any, module: Any, outputs: Any, batch: Any, batch_idx: int
        ) -> None:
            if batch_idx == 1:
                self.mode = Reads().__enter__()
            if batch_idx == 7:
                self.mode.__exit__(None, None, None)
                self.num = self.mode.num

    class Stateless(Logging):
        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), 0.01)

        def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
            loss = (self.net(batch[0]) - batch[1]).square().mean()
            self.log("loss", loss, on_epoch=True)
            return loss

    watched = Watched()
    trainer = quiet(
        max_epochs=1, callbacks=[watched], log_every_n_steps=1000, limit_train_batches=9, limit_val_batches=0
    )
    trainer.fit(way(Stateless(), "eager"), loader())
    assert watched.num == 0
    assert float(trainer.callback_metrics["loss_epoch"]) > 0


def test_a_compiled_module_is_trained_itself_and_saved_under_its_own_names(tmp_path):
    module = Logging()
    trainer, _ = run(whole(module, "eager"))
    assert trainer.model is module
    trainer.save_checkpoint(tmp_path / "one.ckpt")
    kept = torch.load(tmp_path / "one.ckpt")
    assert kept["state_dict"].keys() == module.state_dict().keys()
    assert not any("_orig_mod" in name for name in kept["state_dict"])
    assert "training_step" not in vars(module)
    loaded = Logging.load_from_checkpoint(tmp_path / "one.ckpt")
    assert differing(loaded.state_dict(), module.state_dict()) == []


def test_every_verb_takes_a_compiled_module_and_keeps_it():
    counter = CompileCounterWithBackend("eager")
    compiled = whole(Logging(), counter)
    trainer, _ = run(compiled)
    before = counter.frame_count
    assert trainer.test(dataloaders=loader(36))[0].keys() >= {"test", "count"}
    assert counter.frame_count == before + 1
    predicted = trainer.predict(compiled, loader(36))
    assert torch.equal(torch.cat(predicted), loader(36).dataset.tensors[0][:, 0])
    quiet().validate(compiled, loader(36))
    # Another module, which nobody compiled, is not.
    found = counter.frame_count
    trainer.validate(Logging(), loader(36))
    assert counter.frame_count == found


def test_a_compiled_module_of_torch_is_no_module_of_ours():
    with pytest.raises(dt.TrainerError, match=r"trainer\.not-a-module.*Linear"):
        quiet(max_steps=1).fit(torch.compile(torch.nn.Linear(4, 1), backend="eager"), loader())


def test_uncompiled_gives_back_what_was_not_compiled():
    module = Logging()
    assert uncompiled(module) == (module, None)
    assert uncompiled(None) == (None, None)
    assert uncompiled(whole(module, "eager"))[0] is module


@pytest.mark.ranks
def test_ranks_compile_what_the_caller_compiled():
    plain, rows = run(Logging(), devices=2, limit_train_batches=8)
    trainer, compiled_rows = run(whole(Logging(), "aot_eager"), devices=2, limit_train_batches=8)
    assert compiled_rows == rows
    assert differing(dict(trainer.callback_metrics), dict(plain.callback_metrics)) == []


def test_a_module_that_was_compiled_in_place_is_pickled_without_it():
    module = in_place(Logging(), "eager")
    assert copy.deepcopy(module)._compiled_call_impl is None
    module(torch.ones(1, 4)) if not module.training else module.eval()(torch.ones(1, 4))


def test_what_is_wrong_with_a_value_is_said_after_a_compiled_step():
    class Wrong(Regression):
        def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
            self.log("wrong", batch[0])
            return self.loss(batch)

    with pytest.raises(dt.ModuleError, match=r"module\.log-value.*'wrong'.*shape \(4, 4\)"):
        run(step(Wrong(), "eager"))


def test_logging_outside_of_a_run_is_the_same_error_in_a_graph():
    module = step(Logging(), "eager")
    with pytest.raises(dt.ModuleError, match=r"module\.log-outside"):
        module.training_step(next(iter(loader())), 0)


@BREAKS
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("is_whole", [True, False])
def test_lightnings_module_compiled_is_the_same_run(tmp_path, backend, is_whole):
    class Model(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(3)
            self.net = torch.nn.Linear(4, 1)
            self.error = torchmetrics.MeanSquaredError()

        def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
            x, y = batch
            out = self.net(x)
            loss = (out - y).square().mean()
            self.log("loss", loss, on_epoch=True, prog_bar=True)
            self.log_dict({"mean": out.mean(), "one": 1.0}, sync_dist=True)
            self.error(out, y)
            self.log("error", self.error, on_step=True)
            return loss

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), 0.01)

    def rows(module: Any) -> Any:
        kept = Kept()
        trainer = pl.Trainer(
            default_root_dir=tmp_path,
            accelerator="cpu",
            devices=1,
            max_epochs=2,
            limit_train_batches=9,
            callbacks=[kept],
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
        )
        trainer.fit(module, loader())
        return kept.rows, {name: float(value) for name, value in trainer.logged_metrics.items()}

    counter = CompileCounterWithBackend(backend)
    with torch._dynamo.config.patch(error_on_recompile=True):
        found = rows((whole if is_whole else step)(Model(), counter))
    assert found == rows(Model())
    assert counter.frame_count <= 3


@pytest.mark.parametrize("way", [whole, step])
def test_statistics_of_averaged_weights_are_read_through_a_compiled_step(way):
    class Normed(Regression):
        def __init__(self) -> None:
            super().__init__()
            self.net = torch.nn.Sequential(
                torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3), torch.nn.Linear(3, 1)
            )

    found = []
    for make in (lambda one, _: one, way):
        torch.manual_seed(2)
        module = Normed()
        average = dt.StochasticWeightAveraging(swa_lrs=0.01, swa_epoch_start=1)
        quiet(max_epochs=3, callbacks=[average], limit_train_batches=9).fit(make(module, "eager"), loader())
        found.append(module.state_dict())
    assert differing(*found) == []


@BREAKS
@pytest.mark.filterwarnings(
    "ignore:`torch.jit.script_method` is deprecated:DeprecationWarning"
)  # as torch traces step
def test_manual_optimization_in_a_compiled_step():
    class Manual(Regression):
        def __init__(self) -> None:
            super().__init__()
            self.automatic_optimization = False

        def training_step(self, batch: Any, batch_idx: int) -> None:
            optimizer = self.optimizers()
            loss = self.loss(batch)
            optimizer.zero_grad()
            self.manual_backward(loss)
            optimizer.step()
            self.log("loss", loss)

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), 0.01)

    counter = CompileCounterWithBackend("eager")
    _, rows = run(Manual())
    assert run(whole(Manual(), counter))[1] == rows
    assert counter.frame_count < 9
