"""Number formats on several ranks."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch

import drivetrain as dt
from tests.loops.models import Regression, loader, quiet
from tests.loops.steps import assert_close

pytestmark = pytest.mark.ranks


def flat(module: torch.nn.Module) -> torch.Tensor:
    return torch.cat([one.detach().reshape(-1) for one in module.parameters()])


class OneOverflows(Regression):
    """In step 2 the loss of one rank only is inf; every rank tells its weights after each step."""

    def __init__(self, *, is_manual: bool = False, num_optimizers: int = 1) -> None:
        super().__init__()
        self.automatic_optimization, self.num_optimizers = not is_manual, num_optimizers
        self.told: list[Any] = []

    def loss(self, batch: Any) -> torch.Tensor:
        bad = self.trainer.global_step == 2 and self.trainer.global_rank == 1
        return super().loss(batch) * (torch.inf if bad else 1.0)

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        loss = self.loss(batch)
        if self.automatic_optimization:
            return loss
        optimizers = self.optimizers()
        optimizers = optimizers if isinstance(optimizers, list) else [optimizers]
        self.zero_grad()
        self.manual_backward(loss)
        for optimizer in optimizers:
            optimizer.step()
        return None

    def on_train_batch_end(self, outputs: Any, batch: Any, batch_idx: int) -> None:
        precision = self.trainer.precision_plugin
        mine = (flat(self).tolist(), precision.scale, precision.num_left_out)
        self.told.append(self.trainer.collectives.all_gather_object(mine))

    def configure_optimizers(self) -> Any:
        if self.num_optimizers == 1:
            return torch.optim.AdamW(self.parameters(), lr=0.01)
        return [torch.optim.AdamW(self.net[number].parameters(), lr=0.01) for number in (0, 3)]


@pytest.mark.parametrize("is_manual", [False, True])
@pytest.mark.parametrize("num_optimizers", [1, 2])
def test_when_one_rank_overflows_all_leave_the_step_out(is_manual: bool, num_optimizers: int) -> None:
    module = OneOverflows(is_manual=is_manual, num_optimizers=num_optimizers)
    scaled = dt.MixedPrecision("16-mixed", init_scale=1024.0)
    result = quiet(max_epochs=1, devices=2, strategy="ddp", plugins=[scaled]).fit(module, loader(48))
    assert result.steps == len(module.told) == 6
    for number, (first, second) in enumerate(module.told):
        assert first == second
        assert first[1:] == ((1024.0, 0) if number < 2 else (512.0, num_optimizers))
    weights = [first[0] for first, _ in module.told]
    assert [one == other for one, other in itertools.pairwise(weights)] == [
        number == 1 for number in range(5)
    ]


@pytest.mark.parametrize("factor", [1, 3])
def test_two_ranks_train_as_one_does(factor: int) -> None:
    one, two = Regression(), Regression()
    scaled = dt.MixedPrecision("16-mixed", init_scale=1024.0)  # a step that one of them left out would differ
    flags: dict[str, Any] = {"max_epochs": 2, "plugins": [scaled], "accumulate_grad_batches": factor}
    quiet(**flags).fit(one, loader(48, 8))
    quiet(devices=2, strategy="ddp", gradient_clip_val=1e3, **flags).fit(two, loader(48, 4))
    assert_close(two, one, tolerance=2e-3)
    assert not torch.equal(flat(one), flat(Regression()))


@pytest.mark.parametrize(
    ("precision", "kind"),
    [
        ("32-true", torch.float32),
        ("16-mixed", torch.float32),
        ("bf16-true", torch.bfloat16),
        ("16-true", torch.float16),
    ],
)
def test_gradients_are_averaged_in_the_format_and_the_report_says_so(
    precision: str, kind: torch.dtype
) -> None:
    class Plain(Regression):
        def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
            return self.loss(batch)

        def on_after_backward(self) -> None:
            assert {one.grad.dtype for one in self.parameters()} == {kind}

        def on_train_batch_end(self, *_: Any) -> None:
            everybody = self.trainer.collectives.all_gather_object(flat(self).tolist())
            assert everybody[0] == everybody[1]

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    module, alone = Plain(), Plain()
    said: dict[str, Any] = {"precision": precision}
    if precision == "16-mixed":
        said = {"plugins": [dt.MixedPrecision(precision, init_scale=1024.0)]}
    trainer = quiet(max_epochs=2, devices=2, strategy="ddp", **said)
    trainer.fit(module, loader(48))
    assert trainer.precision_report().reductions == (kind,)
    assert f"reductions {str(kind).removeprefix('torch.')}" in str(trainer.precision_report())
    reference = Regression()
    optimizer = torch.optim.SGD(reference.parameters(), lr=0.1)
    samples = loader(48).dataset
    for start in [*range(0, 48, 8)] * 2:
        optimizer.zero_grad()
        reference.loss(samples[start : start + 8]).backward()
        optimizer.step()
    assert_close(module.float(), reference, tolerance=5e-2 if kind is torch.bfloat16 else 5e-3)
    assert not torch.equal(flat(module), flat(alone))


def test_a_resumed_run_of_two_ranks_is_exact() -> None:
    scaled = dt.MixedPrecision("16-mixed", init_scale=2.0**18, growth_interval=2)
    trainer = quiet(devices=2, strategy="ddp", plugins=[scaled])
    report = trainer.verify_resume(Regression(dropout=0.2), loader(48, shuffle=True), steps=8)
    assert report.is_exact, report


def test_an_engine_on_two_ranks_leaves_the_step_out_everywhere() -> None:
    def main(engine: dt.Engine) -> list[Any]:
        model = Regression()
        ready, optimizer = engine.setup(model, torch.optim.SGD(model.parameters(), lr=0.1))
        told = []
        for number, (x, y) in enumerate(engine.setup_dataloaders(loader(32))):
            optimizer.zero_grad()
            loss = ((ready(x) - y) ** 2).mean()
            engine.backward(loss * torch.inf if number == 1 and engine.global_rank == 1 else loss)
            optimizer.step()
            told.append(engine.strategy.collectives.all_gather_object(flat(model).tolist()))
        return told

    engine = dt.Engine(accelerator="cpu", devices=2, strategy="ddp", launcher="fork", precision="16-mixed")
    told = engine.launch(main)
    assert all(first == second for first, second in told)
    assert [one[0] == other[0] for one, other in itertools.pairwise(told)] == [True, False, False]
