"""sync_batchnorm on several ranks against one process on the same global batches."""

from __future__ import annotations

import copy
import io
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import drivetrain as dt
from tests.loops.models import Regression, quiet

pytestmark = pytest.mark.ranks


class Normed(Regression):
    """Batch norms of one and two dimensions, one of them without parameters, one first on the input."""

    def __init__(self, momentum: float | None = 0.1) -> None:
        super().__init__()
        self.first = torch.nn.BatchNorm1d(4, affine=False, momentum=momentum)
        self.conv = torch.nn.Sequential(
            torch.nn.Conv2d(1, 3, 2), torch.nn.BatchNorm2d(3), torch.nn.ReLU(), torch.nn.Flatten()
        )
        self.last = torch.nn.Linear(3, 4)
        self.double()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x.double())
        return self.net(self.last(self.conv(x.view(-1, 1, 2, 2))))


def batches(num_samples: int, size: int) -> DataLoader:
    x = torch.randn(num_samples, 4, generator=torch.Generator().manual_seed(3)) * 3 + 5
    return DataLoader(TensorDataset(x, x.sum(1, keepdim=True).sin()), size)


def fit(make: Any, loader: DataLoader, **given: Any) -> tuple[dict[str, torch.Tensor], float]:
    module = make()
    trainer = quiet(max_epochs=2, **given)
    trainer.fit(module, loader, batches(9, 3))
    assert all("forward" not in vars(part) for part in module.modules())
    return module.state_dict(), float(trainer.callback_metrics["val"])


@pytest.mark.parametrize("strategy", ["ddp", "zero1", "fsdp"])
def test_two_ranks_normalise_as_one_process_does(strategy: str) -> None:
    # 40 samples: the last batch of a rank is smaller; 36 of 8 leave a rank without one in the last step.
    for num_samples, size, momentum in ((40, 6, 0.1), (36, 8, None)):

        def make(momentum: Any = momentum) -> Normed:
            return Normed(momentum)

        expected, val = fit(make, batches(num_samples, size * 2))
        given = {"devices": 2, "strategy": strategy, "sync_batchnorm": True}
        found, found_val = fit(make, batches(num_samples, size), **given)
        assert found.keys() == expected.keys()
        for name, one in found.items():
            torch.testing.assert_close(one, expected[name], atol=1e-7, rtol=0, msg=name)
        assert found_val == pytest.approx(val, abs=1e-7)


class Copied(Normed):
    """Copies and pickles itself within a fit: what comes out has no ranks."""

    def on_train_batch_end(self, outputs: Any, batch: Any, batch_idx: int) -> None:
        assert "forward" in vars(self.first)
        if self.trainer.is_global_zero:
            file = io.BytesIO()
            torch.save(self.first, file)
            file.seek(0)
            alone = torch.load(file, weights_only=False)
            alone(batch[0].double())
        clone = copy.deepcopy(self.conv)
        clone.eval()(torch.zeros(2, 1, 2, 2).double())
        clone.train()(torch.zeros(2, 1, 2, 2).double())  # every rank calls


class Own(torch.nn.BatchNorm1d):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) * 2


class WithOwn(Normed):
    def __init__(self) -> None:
        super().__init__()
        self.first = Own(4).double()


def test_a_layer_that_is_copied_has_no_ranks_and_one_of_its_own_is_refused() -> None:
    fit(Copied, batches(24, 6), devices=2, strategy="ddp", sync_batchnorm=True)
    with pytest.raises(dt.ModuleError, match=r"strategy\.layer-forward.*\n*.*first is a Own"):
        fit(WithOwn, batches(24, 6), devices=2, strategy="ddp", sync_batchnorm=True)


def test_averaged_weights_get_statistics_of_each_ranks_batches() -> None:
    swa = dt.StochasticWeightAveraging(0.01, swa_epoch_start=1)
    fit(Normed, batches(36, 8), devices=2, strategy="ddp", sync_batchnorm=True, callbacks=[swa])


class Told(dt.LayerSync):
    """A synchronisation of one's own."""

    def apply(self, module: torch.nn.Module) -> torch.nn.Module:
        module.applied = self.collectives.world_size
        return module

    def revert(self, module: torch.nn.Module) -> None:
        assert module.applied == 2
        module.reverted = True


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor")  # torch hides it otherwise
def test_a_compiled_module_is_normalised_over_ranks_too() -> None:
    loader = batches(24, 6)
    expected, _ = fit(Normed, batches(24, 12))
    module = Normed()
    trainer = quiet(max_epochs=2, devices=2, strategy="ddp", sync_batchnorm=True)
    trainer.fit(torch.compile(module, backend="eager"), loader)
    for name, one in module.state_dict().items():
        torch.testing.assert_close(one, expected[name], atol=1e-7, rtol=0, msg=name)


def test_a_layer_sync_of_ones_own() -> None:
    module = Normed()
    quiet(max_epochs=1, devices=2, strategy="ddp", plugins=[Told()]).fit(module, batches(12, 3))
    assert module.reverted
