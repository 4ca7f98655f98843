"""bf16-true and 16-true: parameters in the format, and nothing else that need not be."""

from __future__ import annotations

import traceback
from typing import Any

import pytest
import torch

import drivetrain as dt
from tests.loops.models import Regression, data, differing, loader, quiet

SHORT = {"bf16-true": torch.bfloat16, "16-true": torch.float16}


@pytest.fixture(params=SHORT)
def precision(request: Any) -> str:
    return request.param


class Short(Regression):
    """Trains in any format; notes what its steps see."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("index", torch.tensor([999]))
        self.register_buffer("exact", torch.tensor([16777217.0], dtype=torch.float64))
        self.register_buffer("counted", torch.tensor([999.0]))
        self.seen: dict[str, Any] = {}

    def loss(self, batch: Any) -> torch.Tensor:
        return super().loss(batch[:2])

    def note(self, where: str, batch: Any) -> None:
        self.seen[where] = [one.dtype for one in batch] + [self(batch[0]).dtype]

    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        self.note("train", batch)
        return super().training_step(batch, batch_idx)

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        self.note("validation", batch)
        super().validation_step(batch, batch_idx)

    def predict_step(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> torch.Tensor:
        self.note("predict", batch)
        return self(batch[0])

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=0.01, eps=1e-3)


def rows() -> list[Any]:
    samples = data(40)
    every = [samples[at : at + 4] for at in range(0, 40, 4)]
    return [[x, y.double(), torch.arange(4), torch.tensor([True] * 4)] for x, y in every]


def test_parameters_are_in_the_format_and_buffers_and_integers_keep_their_types(
    precision: str, tmp_path: Any
) -> None:
    kind, module = SHORT[precision], Short()
    trainer = quiet(max_epochs=8, precision=precision)
    result = trainer.fit(module, rows(), rows())
    assert {one.dtype for one in module.parameters()} == {kind}
    assert {one.grad.dtype for one in module.parameters()} == {kind}
    assert (module.index.item(), module.exact.item(), module.counted.item()) == (999, 16777217.0, 999.0)
    states = trainer.optimizers[0].state.values()
    assert {state[name].dtype for state in states for name in ("exp_avg", "exp_avg_sq")} == {kind}
    seen = [kind, kind, torch.int64, torch.bool, kind]
    assert trainer.predict(module, rows())[0].dtype is kind
    assert module.seen == {"train": seen, "validation": seen, "predict": seen}

    # It learns what float32 learns, up to the format.
    full = quiet(max_epochs=8).fit(Short(), rows(), rows())
    assert abs(result.metrics["val"] - full.metrics["val"]) < 2e-2

    trainer = quiet(max_steps=1, precision=precision)
    trainer.fit(Short(), rows())
    trainer.save_checkpoint(tmp_path / "a.ckpt")
    kept = torch.load(tmp_path / "a.ckpt", weights_only=True)
    kinds = {name: value.dtype for name, value in kept["state_dict"].items()}
    assert kinds.pop("index") is torch.int64
    assert kinds.pop("exact") is torch.float64
    assert kinds.pop("counted") is torch.float32
    assert set(kinds.values()) == {kind}
    assert kept["optimizer_states"][0]["state"][0]["exp_avg"].dtype is kind


def test_a_resumed_run_is_the_same_and_another_format_takes_the_values(precision: str, tmp_path: Any) -> None:
    trainer = quiet(max_steps=5, precision=precision)
    trainer.fit(Short(), rows())
    trainer.save_checkpoint(tmp_path / "a.ckpt")
    ends = []
    for path in (tmp_path / "a.ckpt", None):
        run = quiet(max_steps=9, precision=precision)
        run.fit(Short(), rows(), ckpt_path=path)
        run.save_checkpoint(tmp_path / "end.ckpt")
        ends.append(torch.load(tmp_path / "end.ckpt", weights_only=True))
    assert differing(ends[0]["state_dict"], ends[1]["state_dict"]) == []
    assert differing(ends[0]["optimizer_states"], ends[1]["optimizer_states"]) == []

    kept = torch.load(tmp_path / "a.ckpt", weights_only=True)["state_dict"]
    other = Short()
    wide = quiet(max_steps=5, precision="32-true")
    wide.fit(other, rows(), ckpt_path=tmp_path / "a.ckpt")
    assert {one.dtype for one in other.parameters()} == {torch.float32}
    assert all(torch.equal(one, kept[name].float()) for name, one in other.named_parameters())
    assert wide.optimizers[0].state[other.net[0].weight]["exp_avg"].dtype is torch.float32


def test_layers_that_cannot_mix_get_their_statistics_in_the_format(precision: str) -> None:
    kind = SHORT[precision]
    net = torch.nn.Sequential(
        torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4), torch.nn.BatchNorm1d(4, track_running_stats=False)
    )
    weight = net[0].weight
    net(torch.ones(2, 4)).sum().backward()
    dt.TruePrecision(precision).convert_module(net)
    assert net[0].weight is weight
    assert {one.dtype for one in (weight, weight.grad, net[1].running_mean, net[1].running_var)} == {kind}
    assert net[1].num_batches_tracked.dtype is torch.int64
    for mode in (True, False):
        assert net.train(mode)(torch.randn(8, 4, dtype=kind)).dtype is kind


def test_tied_and_lazy_parameters_come_along(precision: str) -> None:
    kind = SHORT[precision]
    net = torch.nn.ModuleList([torch.nn.Linear(3, 3), torch.nn.Linear(3, 3), torch.nn.LazyLinear(2)])
    net[1].weight = net[0].weight
    dt.TruePrecision(precision).convert_module(net)
    assert net[0].weight is net[1].weight
    assert net[2](net[1](torch.ones(1, 3, dtype=kind))).dtype is kind


def test_a_module_is_made_in_the_format(precision: str) -> None:
    kind, trainer = SHORT[precision], quiet(precision=precision, max_epochs=1)
    with trainer.init_module():
        module = Short()
        made = torch.ones(1)
    assert {made.dtype, *(one.dtype for one in module.parameters())} == {kind}
    assert torch.get_default_dtype() is torch.float32
    trainer.fit(module, rows())

    class Configured(Short):
        def configure_model(self) -> None:
            self.net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
            self.made_in = self.net[0].weight.dtype

    late = Configured()
    quiet(precision=precision, max_epochs=1).fit(late, rows())
    assert late.made_in is kind


def test_means_over_an_epoch_are_not_taken_in_the_format(precision: str) -> None:
    """A running mean of 300 values in bfloat16 would stay at the 256th."""

    class Logs(Short):
        values: list[float]

        def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
            loss = super().training_step(batch, batch_idx)
            told = (loss.detach() * 0 + 1 + batch_idx / 100).to(SHORT[precision])
            self.log("told", told, on_step=False, on_epoch=True)
            self.values.append(float(told))
            return loss

    module = Logs()
    module.values = []
    result = quiet(max_epochs=1, precision=precision).fit(module, rows() * 30)
    expected = torch.tensor(module.values, dtype=torch.float64).mean().item()
    assert len(module.values) == 300
    assert result.metrics["told"] == pytest.approx(expected, rel=1e-12)
    assert torch.tensor(result.metrics["loss"]).isfinite()


def test_a_norm_is_taken_in_float32_when_gradients_are_clipped(precision: str) -> None:
    class Steep(Short):
        def loss(self, batch: Any) -> torch.Tensor:
            return (self(batch[0]) * 15000).sum()

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), lr=1.0)

    module = Steep()
    before = [one.detach().clone() for one in module.parameters()]
    quiet(max_steps=1, precision=precision, gradient_clip_val=1.0).fit(module, rows())
    moved = [
        (one.detach().float() - other).flatten()
        for one, other in zip(module.parameters(), before, strict=True)
    ]
    # No gradient overflows, and in float16 their norm would; the step would be 0.
    assert torch.cat(moved).norm().item() == pytest.approx(1.0, rel=2e-2)


def test_what_the_processor_lacks_is_torchs_error_where_it_happened(precision: str) -> None:
    class Lacks(Short):
        def loss(self, batch: Any) -> torch.Tensor:
            return torch.linalg.qr(self(batch[0]))[1].sum()

    with pytest.raises(RuntimeError, match=r"not implemented for '(Half|BFloat16)'") as caught:
        quiet(max_steps=1, precision=precision).fit(Lacks(), rows())
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert [frame.name for frame in frames if frame.filename == __file__][1:][-2:] == [
        "training_step",
        "loss",
    ]


def test_a_float32_buffer_that_meets_the_parameters_is_torchs_error(precision: str) -> None:
    class Mixes(Short):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.net(x + self.counted)

    with pytest.raises(RuntimeError, match="dtype"):
        quiet(max_steps=1, precision=precision).fit(Mixes(), rows())


def test_float32_loaders_train_too(precision: str) -> None:
    module = Short()
    quiet(max_epochs=1, precision=precision).fit(module, loader(), loader())
    assert all(one.isfinite().all() for one in module.parameters())
