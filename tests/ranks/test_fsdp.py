"""Training in parts is training: compared with one process on the same batches, and with ddp."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import drivetrain as dt
from tests.loops.models import Regression, loader, quiet

pytestmark = pytest.mark.ranks

FSDP, HSDP = {"devices": 2, "strategy": "fsdp"}, {"devices": 4, "strategy": "hsdp(replicate=2)"}


class Block(torch.nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(size)
        self.up = torch.nn.Linear(size, 3 * size)
        self.down = torch.nn.Linear(3 * size, size)

    def forward(self, x):
        return x + self.down(torch.tanh(self.up(self.norm(x))))


class Words(dt.Module):
    """A small language model: blocks, an embedding tied to the head, a buffer, a parameter of its own."""

    def __init__(self, tied: bool = True, size: int = 10) -> None:
        super().__init__()
        torch.manual_seed(11)
        self.embedding = torch.nn.Embedding(17, size)
        self.blocks = torch.nn.ModuleList(Block(size) for _ in range(3))
        self.head = torch.nn.Linear(size, 17, bias=False)
        if tied:
            self.head.weight = self.embedding.weight
        self.shift = torch.nn.Parameter(torch.zeros(size))
        self.register_buffer("positions", torch.arange(6))
        self.seen: list[str] = []

    def forward(self, tokens):
        x = self.embedding(tokens) + self.shift + self.positions[:, None] / 100
        for block in self.blocks:
            x = block(x)
        return self.head(x)

    def training_step(self, batch, batch_idx):
        tokens = batch[0]
        logits = self(tokens)
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1).float(), tokens.roll(1, 1).flatten())
        self.log("loss", loss, on_epoch=True)
        return loss

    def validation_step(self, batch, batch_idx):
        self.log("val", Words.training_step(self, batch, batch_idx))

    def predict_step(self, batch, batch_idx, dataloader_idx=0):
        return self(batch[0]).argmax(-1)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=0.01)


def words(num: int = 40, size: int = 4) -> torch.utils.data.DataLoader:
    tokens = torch.randint(0, 17, (num, 6), generator=torch.Generator().manual_seed(1))
    return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(tokens), size)


def gap(one: torch.nn.Module, other: torch.nn.Module) -> float:
    found = zip(one.named_parameters(), other.named_parameters(), strict=True)
    assert all(type(mine) is torch.nn.Parameter for mine in one.parameters())
    return max(float((a.detach().float() - b.detach().float()).abs().max()) for (_, a), (_, b) in found)


def trained(flags: dict[str, Any], module: Any = None, **more: Any) -> tuple[Any, Any, Any]:
    module = module or Words()
    trainer = quiet(**{"max_epochs": 2, **flags, **more})
    result = trainer.fit(module, words(), words(18))
    return module, trainer, result


@pytest.fixture(scope="module")
def reference() -> tuple[Any, Any, Any]:
    """One process that takes the batches of two ranks as one."""
    module = Words()
    trainer = quiet(max_epochs=2)
    return module, trainer, trainer.fit(module, words(size=8), words(18))


@pytest.mark.parametrize(
    "options",
    [
        "fsdp",
        "fsdp(reshard_after_forward=false)",
        "fsdp(cpu_offload=true, activation_checkpointing=true)",
        'fsdp(wrap="Block")',
        "fsdp(min_num_params=300)",
    ],
)
def test_it_takes_the_steps_of_one_process(options: str, reference) -> None:
    want, _, result = reference
    module, trainer, found = trained({"devices": 2, "strategy": options})
    assert gap(module, want) < 2e-6
    assert abs(found.metrics["val"] - result.metrics["val"]) < 1e-6
    assert module.head.weight is module.embedding.weight  # still tied
    assert [*module.state_dict()] == [*want.state_dict()]
    assert [*map(type, module.modules())] == [*map(type, want.modules())]
    assert all(
        not hooks for part in module.modules() for hooks in (part._forward_hooks, part._forward_pre_hooks)
    )
    optimizer = trainer.optimizers[0]
    assert optimizer.param_groups[0]["params"] == [*module.parameters()]
    assert all(type(state["exp_avg"]) is torch.Tensor for state in optimizer.state.values())
    assert {*optimizer.state} == {*module.parameters()}


def test_replicas_of_parts_take_the_same_steps(reference) -> None:
    module = Words()
    quiet(max_epochs=2, **HSDP).fit(module, words(size=2), words(18))
    assert gap(module, reference[0]) < 2e-6


@pytest.mark.parametrize(
    "more",
    [
        {"gradient_clip_val": 0.05},
        {"gradient_clip_val": 0.001, "gradient_clip_algorithm": "value"},
        {"accumulate_grad_batches": 3, "gradient_clip_val": 0.05},
    ],
)
def test_clipping_and_accumulation_are_those_of_ddp(more: dict[str, Any]) -> None:
    want, _, _ = trained({"devices": 2, "strategy": "ddp"}, **more)
    assert gap(trained(FSDP, **more)[0], want) < 2e-6


@pytest.mark.parametrize(
    ("precision", "most", "reduced"),
    [
        ("64-true", 1e-12, torch.float64),
        ("bf16-mixed", 0.03, torch.float32),
        ("16-mixed", 0.03, torch.float32),
    ],
)
def test_formats(precision: str, most: float, reduced: torch.dtype) -> None:
    want, _, _ = trained({"devices": 2, "strategy": "ddp"}, precision=precision)
    module, trainer, _ = trained(FSDP, precision=precision)
    assert gap(module, want) < most
    report = trainer.precision_report()
    assert report.reductions == (reduced,)
    assert report.parameters == (next(want.parameters()).dtype,)


def test_parameters_are_gathered_in_a_short_format_where_that_is_said() -> None:
    class Looks(Words):
        def forward(self, tokens):
            found = super().forward(tokens)
            self.seen += [str(self.blocks[0].up.weight.dtype), str(found.dtype)]
            return found

    casting = {"devices": 2, "strategy": "fsdp(cast_parameters=true)"}
    module, trainer, _ = trained(casting, Looks(), precision="bf16-mixed")
    want, _, _ = trained({"devices": 2, "strategy": "ddp"}, precision="bf16-mixed")
    assert gap(module, want) < 0.05
    assert "torch.bfloat16" in module.seen[1]
    assert trainer.precision_report().parameters == (torch.float32,)
    with pytest.raises(dt.ModuleError, match=r"strategy.no-short-format"):
        trained(casting)


def test_what_overflows_on_one_rank_is_left_out_on_all() -> None:
    class Overflows(Words):
        def training_step(self, batch, batch_idx):
            loss = super().training_step(batch, batch_idx)
            return loss * 1e8 if batch_idx == 1 and self.global_rank == 1 else loss

    module, trainer, _ = trained(FSDP, Overflows(), precision="16-mixed", max_epochs=1)
    assert trainer.precision_plugin.num_left_out >= 1
    assert all(bool(one.isfinite().all()) for one in module.parameters())


@pytest.mark.parametrize(
    "other", [FSDP, {"devices": 2, "strategy": "ddp"}, {"devices": 2, "strategy": "zero1"}]
)
def test_a_run_goes_on_with_another_strategy(other: dict[str, Any], tmp_path) -> None:
    whole, _, _ = trained(FSDP)

    def go_on(first: dict[str, Any], then: dict[str, Any]) -> Any:
        trainer = quiet(**first, max_steps=3)
        trainer.fit(Words(), words(), words(18))
        trainer.save_checkpoint(tmp_path / "cut.ckpt")
        resumed = Words()
        quiet(**then, max_epochs=2).fit(resumed, words(), words(18), ckpt_path=tmp_path / "cut.ckpt")
        return resumed

    exact = 0.0 if other is FSDP else 2e-6
    assert gap(go_on(FSDP, other), whole) <= exact
    assert gap(go_on(other, FSDP), whole) <= exact


@pytest.mark.parametrize("other", [HSDP, {"devices": 3, "strategy": "fsdp"}, {"devices": 1}])
def test_weights_and_states_load_on_any_number_of_ranks(other: dict[str, Any], tmp_path) -> None:
    trainer = quiet(**FSDP, max_steps=3)
    trainer.fit(Words(), words())
    trainer.save_checkpoint(tmp_path / "first.ckpt")
    second, module = quiet(**other, max_steps=3), Words()
    second.fit(module, words(), ckpt_path=tmp_path / "first.ckpt")
    second.save_checkpoint(tmp_path / "second.ckpt")
    first, again = (torch.load(tmp_path / f"{name}.ckpt") for name in ("first", "second"))
    for name, value in first["state_dict"].items():
        assert torch.equal(again["state_dict"][name], value)
    for number, state in first["optimizer_states"][0]["state"].items():
        for name, value in state.items():
            assert torch.equal(again["optimizer_states"][0]["state"][number][name], value)


def test_a_checkpoint_within_the_run_is_whole_and_plain(tmp_path) -> None:
    saver = dt.ModelCheckpoint(tmp_path, every_n_train_steps=2, save_top_k=-1)
    module = Words()
    quiet(**FSDP, max_epochs=1, accumulate_grad_batches=2, callbacks=[saver]).fit(module, words())
    paths = sorted(tmp_path.glob("*.ckpt"))
    kept = torch.load(paths[0], weights_only=True)
    assert kept["state_dict"]["embedding.weight"].shape == (17, 10)
    shapes = [kept["optimizer_states"][0]["state"][number]["exp_avg"].shape for number in (0, 1)]
    assert shapes == [one.shape for _, one in zip(range(2), module.parameters(), strict=False)]
    assert all(
        type(value) is torch.Tensor
        for state in kept["optimizer_states"][0]["state"].values()
        for value in state.values()
    )
    resumed = Words()
    quiet(**FSDP, max_epochs=1, accumulate_grad_batches=2).fit(resumed, words(), ckpt_path=paths[0])
    assert gap(resumed, module) == 0.0


@pytest.mark.parametrize("weighted", [False, True])
def test_an_open_window_goes_on_with_another_strategy(weighted: bool, tmp_path) -> None:
    class Saves(Words):
        def training_step(self, batch, batch_idx):
            loss = super().training_step(batch, batch_idx)
            return {"loss": loss, "weight": float(batch[0].sum())} if weighted else loss

        def on_train_batch_end(self, outputs, batch, batch_idx):
            if batch_idx == 1 and self.trainer.strategy.ranks.world_size:
                self.trainer.save_checkpoint(tmp_path / f"{self.trainer.plan.strategy.name}.ckpt")

    ddp, fsdp = {"devices": 2, "strategy": "ddp"}, FSDP
    more = {"max_epochs": 1, "accumulate_grad_batches": 3}
    want = [trained(flags, Saves(), **more)[0] for flags in (ddp, fsdp)]
    assert gap(*want) < 2e-6
    for first, then in (("ddp", fsdp), ("fsdp", ddp), ("fsdp", fsdp)):
        resumed = Saves()
        resumed.on_train_batch_end = lambda *_: None
        path = tmp_path / f"{first}.ckpt"
        assert torch.load(path, weights_only=True)["loops"]["fit"]["window"][0]["batches"] == 2
        quiet(**then, **more).fit(resumed, words(), ckpt_path=path)
        assert gap(resumed, want[0]) < 2e-6


class ByHand(dt.Module):
    """Two optimizers, stepped by the module, over parts and a parameter of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.automatic_optimization = False
        torch.manual_seed(5)
        self.first = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 4))
        self.second = torch.nn.Linear(4, 1)
        self.scale = torch.nn.Parameter(torch.ones(1))

    def training_step(self, batch, batch_idx):
        one, two = self.optimizers()
        for optimizer in (one, two):
            loss = ((self.second(torch.tanh(self.first(batch[0]))) * self.scale - batch[1]) ** 2).mean()
            optimizer.zero_grad()
            self.manual_backward(loss)
            self.clip_gradients(optimizer, 0.1)
            optimizer.step()
        self.log("loss", loss)

    def configure_optimizers(self):
        return (
            torch.optim.AdamW(self.first.parameters(), lr=0.01),
            torch.optim.SGD([*self.second.parameters(), self.scale], lr=0.1),
        )


def test_manual_optimization_with_several_optimizers() -> None:
    want, found = ByHand(), ByHand()
    quiet(devices=2, max_epochs=2).fit(want, loader(32))
    quiet(**FSDP, max_epochs=2).fit(found, loader(32))
    assert gap(found, want) < 2e-6


def test_evaluations_and_predictions_count_each_sample_once() -> None:
    module = Words()
    for num in (2, 18):  # fewer batches than ranks; one rank has one more
        want = quiet().validate(module, words(num))
        assert quiet(**FSDP).validate(module, words(num))[0]["val"] == pytest.approx(want[0]["val"], abs=1e-6)
        predicted = torch.cat(quiet(**FSDP).predict(module, words(num)))
        assert torch.equal(predicted, torch.cat(quiet().predict(module, words(num))))


class Made(Words):
    """Is made where it will be trained, without memory before it is in parts."""

    def __init__(self) -> None:
        dt.Module.__init__(self)
        self.net = None

    def configure_model(self):
        if self.net is None:
            self.net = torch.nn.Sequential(
                torch.nn.Linear(4, 8), torch.nn.LayerNorm(8), torch.nn.Linear(8, 1)
            )
            self.was_meta = [one.is_meta for one in self.net.parameters()]

    def training_step(self, batch, batch_idx):
        return ((self.net(batch[0]) - batch[1]) ** 2).mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.05)


class NoValues(Made):
    def configure_model(self):
        super().configure_model()
        self.table = torch.nn.Parameter(torch.zeros(3))


def test_modules_that_are_made_in_configure_model_take_no_memory_before() -> None:
    module = Made()
    result = quiet(**FSDP, max_epochs=3).fit(module, loader(32))
    assert all(module.was_meta)
    assert all(not one.is_meta and bool(one.isfinite().all()) for one in module.parameters())
    assert bool((module.net[1].weight != 1).any())  # trained from what LayerNorm begins with
    assert result.steps == 12
    with pytest.raises(
        dt.ModuleError, match=r"strategy.no-values\] nothing gives table of a NoValues values"
    ):
        quiet(**FSDP, max_epochs=1).fit(NoValues(), loader(32))


def test_an_engine_trains_what_a_trainer_does(tmp_path) -> None:
    def loop(engine: dt.Engine, made_before: bool) -> Any:
        torch.manual_seed(2)
        model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
        if made_before:
            optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
            module, optimizer = engine.setup(model, optimizer)
        else:
            module = engine.setup(model)
            optimizer = engine.setup_optimizers(torch.optim.AdamW(module.parameters(), lr=0.01))
        for x, y in engine.setup_dataloaders(loader(32)):
            optimizer.zero_grad()
            engine.backward(((module(x) - y) ** 2).mean())
            engine.clip_gradients(module, optimizer, max_norm=0.1)
            optimizer.step()
        state = {"model": module, "optimizer": optimizer}
        engine.save(tmp_path / "engine.ckpt", state)
        engine.load(tmp_path / "engine.ckpt", state)
        kept = engine.strategy.checkpoint_io.load(tmp_path / "engine.ckpt")
        return [kept["model"][name].tolist() for name in sorted(kept["model"])]

    want = dt.Engine(devices=2, accelerator="cpu", launcher="fork", strategy="ddp").launch(loop, True)
    for made_before in (True, False):
        engine = dt.Engine(accelerator="cpu", launcher="fork", **FSDP)
        found = engine.launch(loop, made_before)
        for mine, theirs in zip(found, want, strict=True):
            torch.testing.assert_close(torch.tensor(mine), torch.tensor(theirs), atol=2e-6, rtol=0)


def test_a_failure_is_raised_and_what_is_left_is_said() -> None:
    class Fails(Words):
        def training_step(self, batch, batch_idx):
            if batch_idx == 2:
                raise ValueError("no more")
            return super().training_step(batch, batch_idx)

    module = Fails()
    with pytest.raises(ValueError, match="no more"):
        trained(FSDP, module)
    with pytest.raises(dt.ModuleError, match=r"strategy.left-in-parts"):
        trained(FSDP, module)


def test_one_rank_trains_as_one() -> None:
    alone, module = Regression(), Regression()
    quiet(max_epochs=1).fit(alone, loader())
    quiet(max_epochs=1, devices=1, strategy="fsdp").fit(module, loader())
    assert gap(module, alone) == 0.0

    class Counts(Block):
        calls = 0

        def forward(self, x):
            Counts.calls += 1
            return super().forward(x)

    words_ = Words()
    words_.blocks = torch.nn.ModuleList([Counts(10)])
    quiet(max_steps=1, devices=1, strategy="fsdp(activation_checkpointing=true)").fit(words_, words())
    assert Counts.calls == 2  # once in forward, once more in backward
    assert "forward" not in vars(words_.blocks[0])


class Untied(Words):
    def __init__(self) -> None:
        super().__init__(tied=False)
        self.norm = torch.nn.BatchNorm1d(10)

    def forward(self, tokens):
        x = self.embedding(tokens) + self.shift
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x.transpose(1, 2)).transpose(1, 2))


@pytest.mark.parametrize(
    "callback",
    [
        lambda: dt.EMAWeightAveraging(decay=0.9),
        lambda: dt.StochasticWeightAveraging(swa_lrs=0.01, swa_epoch_start=2),
    ],
)
def test_averages_of_weights_are_those_of_ddp(callback, tmp_path) -> None:
    found = {}
    for flags in ({"devices": 2, "strategy": "ddp"}, FSDP):
        name = flags["strategy"]
        saver = dt.ModelCheckpoint(tmp_path / name, every_n_epochs=1, save_top_k=-1, filename="{epoch}")
        module = Untied()
        trainer = quiet(**flags, max_epochs=4, callbacks=[callback(), saver])
        trainer.fit(module, words(36), words(18))  # one rank has a batch more
        trainer.save_checkpoint(tmp_path / name / "end.ckpt")
        found[name] = module
    assert gap(found["fsdp"], found["ddp"]) < 2e-6
    torch.testing.assert_close(found["fsdp"].norm.running_mean, found["ddp"].norm.running_mean)
    for file in ("epoch=2.ckpt", "end.ckpt"):
        ours, theirs = (torch.load(tmp_path / name / file, weights_only=True) for name in ("fsdp", "ddp"))
        for part in ("state_dict", "current_model_state"):
            for name, value in theirs.get(part, {}).items():
                torch.testing.assert_close(ours[part][name], value, atol=2e-6, rtol=0)
    resumed = Untied()
    trainer = quiet(**FSDP, max_epochs=4, callbacks=[callback()])
    trainer.fit(resumed, words(36), words(18), ckpt_path=tmp_path / "fsdp" / "epoch=2.ckpt")
    assert gap(resumed, found["fsdp"]) == 0.0


def test_what_needs_the_whole_model_says_so() -> None:
    with pytest.raises(dt.ModuleError, match=r"callback.in-parts\] ModelPruning under strategy 'fsdp'"):
        trained(FSDP, callbacks=[dt.ModelPruning("l1_unstructured", amount=0.5)])
    with pytest.raises(dt.ModuleError, match=r"strategy.no-units"):
        trained({"devices": 2, "strategy": "fsdp(activation_checkpointing=true)"}, ByHand())
