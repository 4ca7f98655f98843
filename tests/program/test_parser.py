from __future__ import annotations

import pytest
import torch

import drivetrain as dt
from drivetrain.compat.lightning import Trainer as Mirrored
from drivetrain.program.parser import Parser, takes, takes_of
from tests.program.net import Net


def test_the_trainers_defaults_are_plain_values() -> None:
    parser = Parser()
    parser.add_class_args(dt.Trainer, "trainer")
    parser.complete()
    said = parser.get_defaults()["trainer"]
    assert (said["devices"], said["num_nodes"], said["sync_batchnorm"]) == ("auto", 1, False)
    assert [type(said[name]) for name in ("devices", "num_nodes", "sync_batchnorm")] == [str, int, bool]


def test_a_class_that_is_none_of_these_is_refused() -> None:
    with pytest.raises(dt.TrainerError, match=r"arguments of <class 'int'>(.|\n)*add_class_arguments"):
        Parser().add_class_args(int, "number")


@pytest.mark.parametrize("wrong", [int, (), (torch.optim.SGD, int)])
def test_an_optimizer_derives_from_torchs(wrong) -> None:
    with pytest.raises(dt.TrainerError, match=r"optimizer(.|\n)*Optimizer"):
        Parser().add_optimizer_args(wrong)
    with pytest.raises(dt.TrainerError, match=r"lr_scheduler(.|\n)*LRScheduler"):
        Parser().add_lr_scheduler_args(wrong)


def test_own_are_those_without_a_link() -> None:
    parser = Parser()
    parser.add_class_args(Net, "model")
    parser.add_optimizer_args(torch.optim.SGD, "first")
    parser.add_optimizer_args(nested_key="second", link_to="model.critic")
    parser.add_lr_scheduler_args()
    parser.complete()
    config = parser.parse_args(["--first.lr=0.5", "--second=torch.optim.Adam"])
    optimizers, schedulers = parser.own(config)
    assert [one["class_path"] for one in optimizers] == ["torch.optim.sgd.SGD"]
    assert optimizers[0]["init_args"]["lr"] == 0.5
    assert schedulers == []
    assert config["model"]["critic"]["class_path"] == "torch.optim.Adam"


def test_takes_leaves_out_what_has_no_name() -> None:
    def function(a, b=1, *c, d=2, **e) -> None:
        pass

    assert [*takes(function)] == ["a", "b", "d"]
    assert takes(function)["d"] == 2


def test_takes_of_a_class_has_what_it_hands_on() -> None:
    found = takes_of(Mirrored)
    assert found["launcher"] == "auto"
    assert found["limit_train_batches"] is None  # the class's own default, and not the one below it
    assert takes_of(lambda a, b=1: None)["b"] == 1
