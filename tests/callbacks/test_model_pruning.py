from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn.utils import prune

import drivetrain as dt
from tests.callbacks.test_weight_averaging import SaveAt
from tests.loops.models import Regression, differing, loader, quiet

LAYERS = ("net.0", "net.3")


class Zeros(dt.Callback):
    """Counts the zeros of each layer's weight at each epoch's end, as forward sees them."""

    is_last = True

    def __init__(self) -> None:
        self.counts: list[list[int]] = []

    def on_train_epoch_end(self, trainer, module):
        self.counts.append(zeros(module))


def zeros(module: torch.nn.Module) -> list[int]:
    return [int((module.get_submodule(path).weight == 0).sum()) for path in LAYERS]


def fit(callback: dt.ModelPruning, *others: dt.Callback, max_epochs: int = 2, **given: Any) -> Regression:
    module = Regression()
    quiet(max_epochs=max_epochs, callbacks=[callback, *others], **given).fit(module, loader(20), loader(8))
    return module


def plain(**given: Any) -> dict[str, Any]:
    return {"pruning_fn": "l1_unstructured", "use_lottery_ticket_hypothesis": False, **given}


def test_parameters_are_pruned_together_more_each_epoch() -> None:
    watch = Zeros()
    module = fit(dt.ModelPruning(**plain(amount=0.5, parameter_names=["weight"])), watch, max_epochs=3)
    assert [sum(one) for one in watch.counts] == [20, 30, 35]  # of 40, a half of what is left each time
    assert sum(zeros(module)) == 35
    assert [*module.state_dict()] == [*Regression().state_dict()]


def test_biases_are_pruned_too_unless_said() -> None:
    module = fit(dt.ModelPruning(**plain(amount=0.5)), max_epochs=1)
    assert sum(int((one == 0).sum()) for one in module.parameters()) == round(0.5 * 49)


class Largest(prune.BasePruningMethod):
    """Prunes the largest entries."""

    PRUNING_TYPE = "unstructured"

    def __init__(self, amount: int) -> None:
        self.amount = amount

    def compute_mask(self, t: torch.Tensor, default_mask: torch.Tensor) -> torch.Tensor:
        mask = default_mask.clone()
        mask.view(-1)[t.abs().view(-1).topk(self.amount).indices] = 0
        return mask


def one_column(module: torch.nn.Module, name: str, amount: int) -> None:
    prune.ln_structured(module, name, amount, n=2, dim=1)


@pytest.mark.parametrize(
    ("given", "counts"),
    [
        ({"pruning_fn": "ln_structured", "amount": 1, "pruning_dim": 1, "pruning_norm": 1}, [8, 1]),
        ({"pruning_fn": "random_structured", "amount": 0.5, "pruning_dim": 1}, [16, 4]),
        ({"pruning_fn": "random_unstructured", "amount": 0.25}, [8, 2]),
        ({"pruning_fn": "l1_unstructured", "amount": 3}, [3, 3]),
        ({"pruning_fn": Largest, "amount": 2}, [2, 2]),
        ({"pruning_fn": one_column, "amount": 2}, [16, 2]),
        ({"pruning_fn": Largest, "amount": 2, "use_global_unstructured": True}, None),
        ({"pruning_fn": "random_unstructured", "amount": 2, "use_global_unstructured": True}, None),
    ],
)
def test_methods(given: dict[str, Any], counts: list[int] | None) -> None:
    said = plain(parameter_names=["weight"], use_global_unstructured=False) | given
    found = zeros(fit(dt.ModelPruning(**said), max_epochs=1))
    assert found == counts if counts else sum(found) == 2


def test_functions_of_the_epoch() -> None:
    watch = Zeros()
    said = plain(
        parameter_names=["weight"], amount=lambda epoch: 2 * epoch, apply_pruning=lambda epoch: epoch != 2
    )
    fit(dt.ModelPruning(**said), watch, max_epochs=4)
    assert [sum(one) for one in watch.counts] == [0, 2, 2, 8]


def test_named_parameters_and_a_filter() -> None:
    module = Regression()
    pairs = [(module.net[0], "weight"), (module.net[3], "bias")]
    quiet(max_epochs=1, callbacks=[dt.ModelPruning(**plain(amount=4, parameters_to_prune=pairs))]).fit(
        module, loader(20)
    )
    assert int((module.net[0].weight == 0).sum()) + int((module.net[3].bias == 0).sum()) == 4

    class First(dt.ModelPruning):
        def filter_parameters_to_prune(self, parameters_to_prune=()):
            return parameters_to_prune[:1]

    assert zeros(fit(First(**plain(amount=5)))) == [10, 0]


class Begins(dt.Callback):
    """Keeps the first layer's weight at the start, and after each pruning."""

    is_last = True

    def __init__(self) -> None:
        self.weights: list[torch.Tensor] = []

    def on_train_epoch_end(self, trainer, module):
        self.weights.append(module.net[0].weight.detach().clone())


def test_what_is_left_gets_the_values_that_the_fit_began_with() -> None:
    begins, start = Begins(), Regression().net[0].weight
    fit(dt.ModelPruning("l1_unstructured", parameter_names=["weight"], amount=0.3), begins)
    for found in begins.weights:
        left = found != 0
        assert bool(left.any())
        assert torch.equal(found[left], start[left])

    begins = Begins()
    fit(dt.ModelPruning("l1_unstructured", parameter_names=["weight"], resample_parameters=True), begins)
    first, second = begins.weights
    both = (first != 0) & (second != 0)
    assert not torch.equal(first[both], start[both])
    assert not torch.equal(first[both], second[both])

    begins = Begins()
    fit(dt.ModelPruning("l1_unstructured", use_lottery_ticket_hypothesis=lambda epoch: epoch == 1), begins)
    assert not torch.equal(begins.weights[0][begins.weights[0] != 0], start[begins.weights[0] != 0])
    assert torch.equal(begins.weights[1][begins.weights[1] != 0], start[begins.weights[1] != 0])


def test_after_validations_instead() -> None:
    watch = Zeros()
    said = plain(amount=2, parameter_names=["weight"], prune_on_train_epoch_end=False)
    module = fit(dt.ModelPruning(**said), watch, val_check_interval=2, num_sanity_val_steps=1)
    assert [sum(one) for one in watch.counts] == [4, 8]
    quiet(callbacks=[dt.ModelPruning(**said)]).validate(module, loader(8))
    assert sum(zeros(module)) == 8


@pytest.mark.parametrize("step", [3, 5, 8])
@pytest.mark.parametrize(
    "given",
    [
        {"amount": 0.3},
        {"amount": 0.3, "use_lottery_ticket_hypothesis": True},
        {"amount": 3, "use_lottery_ticket_hypothesis": True, "resample_parameters": True},
        {"amount": 2, "prune_on_train_epoch_end": False, "make_pruning_permanent": False},
        {"pruning_fn": "ln_structured", "use_global_unstructured": False, "amount": 1, "pruning_dim": 0}
        | {"pruning_norm": 1, "parameter_names": ["weight"], "parameters": LAYERS[:1]},
    ],
)
def test_a_resumed_run_is_the_same_run(tmp_path: Path, given: dict[str, Any], step: int) -> None:
    paths, path = given.get("parameters", ()), tmp_path / "a.ckpt"
    said = {name: value for name, value in given.items() if name != "parameters"}

    def run(*callbacks: dt.Callback, ckpt_path: Path | None = None) -> tuple[Regression, dict[str, Any]]:
        torch.manual_seed(1)
        module = Regression()
        pairs = [(module.get_submodule(one), "weight") for one in paths]
        callback = dt.ModelPruning(**plain(**said), parameters_to_prune=pairs)
        trainer = quiet(max_epochs=3, callbacks=[callback, *callbacks])
        trainer.fit(module, loader(20), loader(8), ckpt_path=ckpt_path)
        trainer.save_checkpoint(tmp_path / "end.ckpt")
        return module, torch.load(tmp_path / "end.ckpt", weights_only=True)

    module, whole = run(SaveAt(path, step))
    kept = torch.load(path, weights_only=True)
    assert [*kept["state_dict"]] == [*whole["state_dict"]] == [*Regression().state_dict()]
    count = sum(int((one == 0).sum()) for one in kept["state_dict"].values())
    assert (count > 0) is (step > 5)
    again, resumed = run(ckpt_path=path)
    assert not differing(whole["state_dict"], resumed["state_dict"])
    assert not differing(whole["callbacks"], resumed["callbacks"])
    assert sum(int((one == 0).sum()) for one in resumed["state_dict"].values()) > count
    masked = [name for name, _ in again.named_buffers()]
    assert masked == [name for name, _ in module.named_buffers()]
    assert bool(masked) is (said.get("make_pruning_permanent") is False)


def test_pruned_weights_stay_pruned_in_a_resumed_run_that_prunes_no_more(tmp_path: Path) -> None:
    path = tmp_path / "a.ckpt"
    fit(dt.ModelPruning(**plain(amount=0.5)), SaveAt(path, 8), max_epochs=2)
    before = torch.load(path, weights_only=True)["state_dict"]
    module = Regression()
    pruning = dt.ModelPruning(**plain(apply_pruning=False))
    quiet(max_epochs=4, callbacks=[pruning]).fit(module, loader(20), ckpt_path=path)
    for name, value in module.state_dict().items():
        assert torch.equal(value == 0, before[name] == 0)
        assert not value.any() or not torch.equal(value, before[name])


def test_a_module_that_was_left_with_masks_loads_a_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "a.ckpt"
    pruning = dt.ModelPruning(**plain(amount=0.5, make_pruning_permanent=False))
    trainer, module = quiet(max_epochs=2, callbacks=[pruning, SaveAt(path, 8)]), Regression()
    trainer.fit(module, loader(20))
    assert "net.0.weight_mask" in module.state_dict()
    trainer.fit(module, loader(20), ckpt_path=path)
    assert sum(int((one == 0).sum()) for one in torch.load(path)["state_dict"].values()) == 24
    trainer.test(module, loader(8), ckpt_path=path)
    assert [*module.state_dict()] == [*Regression().state_dict()]


def test_with_an_average_of_the_weights(tmp_path: Path) -> None:
    path = tmp_path / "a.ckpt"

    def run(*callbacks: dt.Callback, ckpt_path: Path | None = None) -> Regression:
        module, pruning = Regression(), dt.ModelPruning(**plain(amount=0.5))
        quiet(max_epochs=2, callbacks=[pruning, dt.WeightAveraging(), *callbacks]).fit(
            module, loader(20), loader(8), ckpt_path=ckpt_path
        )
        return module

    whole, resumed = run(SaveAt(path, 8)), run(ckpt_path=path)
    assert sum(int((one == 0).sum()) for one in whole.parameters()) == 36
    assert not differing(whole.state_dict(), resumed.state_dict())


def test_it_says_what_it_does(capsys: pytest.CaptureFixture[str]) -> None:
    said = plain(amount=0.5, parameter_names=["weight"], use_global_unstructured=False)
    fit(dt.ModelPruning(**said, verbose=1), max_epochs=1)
    fit(dt.ModelPruning(**said, verbose=2), max_epochs=1)
    total = "l1_unstructured: pruned 0/40 (0.00%) -> 20/40 (50.00%)"
    assert capsys.readouterr().err.splitlines() == [
        total,
        total,
        "  net.0.weight: 0/32 (0.00%) -> 16/32 (50.00%)",
        "  net.3.weight: 0/8 (0.00%) -> 4/8 (50.00%)",
    ]


@pytest.mark.parametrize(
    "given",
    [
        {"pruning_fn": "l2_unstructured"},
        {"pruning_fn": 3},
        {"pruning_fn": dict},
        {"pruning_fn": "ln_structured", "pruning_dim": 0, "pruning_norm": 1},
        {"pruning_fn": "ln_structured", "use_global_unstructured": False, "pruning_norm": 1},
        {"pruning_fn": "ln_structured", "use_global_unstructured": False, "pruning_dim": 1},
        {"pruning_fn": one_column},
        {"parameters_to_prune": ["weight"]},
        {"parameters_to_prune": [(torch.nn.Linear(1, 1), 0)]},
        {"parameter_names": ["weights"]},
        {"amount": -0.5},
        {"amount": 1.5},
        {"amount": True},
        {"apply_pruning": "yes"},
        {"use_lottery_ticket_hypothesis": 1},
        {"resample_parameters": None},
        {"make_pruning_permanent": 0},
        {"verbose": 3},
        {"prune_on_train_epoch_end": "end"},
    ],
)
def test_other_arguments_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(dt.ModuleError, match=r"callback.bad-argument.*ModelPruning"):
        dt.ModelPruning(**plain(**given))


def test_parameters_that_the_module_has_not_are_refused() -> None:
    strange = [(torch.nn.Linear(1, 1), "weight")]
    for pairs in (strange, [(Regression().net[0], "weigth")]):
        with pytest.raises(dt.ModuleError, match=r"callback.bad-argument.*parameters_to_prune"):
            fit(dt.ModelPruning(**plain(parameters_to_prune=pairs)))
