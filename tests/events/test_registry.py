from __future__ import annotations

import pytest

import drivetrain as dt
from drivetrain.events import HOOKS, check_hooks, is_unused


def module(**methods) -> dt.Module:
    return type("Mine", (dt.Module,), methods)()


@pytest.mark.parametrize(
    ("name", "code", "nearest"),
    [
        ("on_train_epoch_ends", "module.hook-name", "on_train_epoch_end"),
        ("on_valid_epoch_end", "module.hook-name", "on_validation_epoch_end"),
        ("validation_epoch_end", "module.hook-name", "on_validation_epoch_end"),
        ("configure_sharded_model", "module.hook-name", "configure_model"),
        ("trainning_step", "module.hook-name", "training_step"),
        ("configure_optimizer", "module.hook-name", "configure_optimizers"),
        ("on_validation_model_evals", "module.hook-name", "on_validation_model_eval"),
        ("optimizer_step", "module.hook-arguments", "optimizer_closure"),
    ],
)
def test_a_method_that_nothing_would_call_is_an_error_with_the_nearest(name, code, nearest) -> None:
    with pytest.raises(dt.ModuleError) as caught:
        check_hooks(module(**{name: lambda self: None}), dt.Module)
    assert caught.value.code == code
    assert nearest in str(caught.value)


def test_names_that_are_no_hooks_are_left_alone() -> None:
    check_hooks(
        module(on_button=lambda self: None, train_once=lambda self: 1, loss=lambda self: 2), dt.Module
    )
    check_hooks(dt.ModelCheckpoint(), dt.Callback)


def test_a_hook_with_other_arguments_is_an_error_that_shows_both() -> None:
    class Mine(dt.Callback):
        def on_train_batch_end(self, trainer, module, batch):
            pass

    with pytest.raises(dt.ModuleError, match=r"module.hook-arguments[\s\S]*trainer, module, outputs, batch"):
        check_hooks(Mine(), dt.Callback)
    check_hooks(module(on_test_batch_start=lambda self, batch, batch_idx: None), dt.Module)
    check_hooks(module(on_test_batch_start=lambda self, *args: None), dt.Module)


def test_every_hook_stands_in_the_bases_and_does_nothing() -> None:
    for name, hook in HOOKS.items():
        assert is_unused(getattr(dt.Callback(), name))
        assert hook.on_module == hasattr(dt.Module, name)
        if hook.on_module:
            assert is_unused(getattr(dt.Module(), name))
