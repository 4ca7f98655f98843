from __future__ import annotations

import pytest
import torch

import drivetrain as dt
from drivetrain.program.optimizing import ReduceLROnPlateau, configured, instantiate_class, trained_by


def test_an_object_of_its_path_and_arguments() -> None:
    weight = torch.nn.Parameter(torch.zeros(2))
    made = instantiate_class([weight], {"class_path": "torch.optim.SGD", "init_args": {"lr": 0.5}})
    assert made.param_groups[0]["lr"] == 0.5
    schedule = {"class_path": "torch.optim.lr_scheduler.StepLR", "init_args": {"step_size": 1}}
    assert instantiate_class(made, schedule).optimizer is made
    assert instantiate_class((2, 3), {"class_path": "torch.nn.Linear"}).out_features == 3


@pytest.mark.parametrize("path", ["torch.optim.Nothing", "no_such_module.A", "Adam"])
def test_a_path_that_leads_nowhere_is_named(path: str) -> None:
    with pytest.raises(dt.TrainerError, match=f"there is no class {path!r}"):
        instantiate_class((), {"class_path": path})


def test_arguments_that_do_not_fit_are_told_with_those_that_do() -> None:
    with pytest.raises(dt.TrainerError, match=r"Dropout cannot be made of {'q': 1}(.|\n)*its arguments are"):
        instantiate_class((), {"class_path": "torch.nn.Dropout", "init_args": {"q": 1}})


def test_what_is_frozen_is_not_trained() -> None:
    module = torch.nn.Linear(2, 2)
    module.weight.requires_grad_(False)
    made = trained_by(module.parameters(), {"class_path": "torch.optim.SGD", "init_args": {"lr": 1.0}})
    assert made.param_groups[0]["params"] == [module.bias]


def test_a_plateau_watches_the_value_that_it_names() -> None:
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    plateau = ReduceLROnPlateau(optimizer, "val_loss", patience=3)
    assert plateau.patience == 3
    assert configured(optimizer, plateau)["lr_scheduler"] == {"scheduler": plateau, "monitor": "val_loss"}
    assert configured(optimizer, None) is optimizer
