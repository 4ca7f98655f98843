"""HOOKS: all hooks, in the order in which a run calls them.

At each moment the callbacks come first, in their order, then the module, then the callbacks that look at
what was logged and decide (``decides``), then those that come last (``is_last``: those that save), so that
they see and store what all others have done.
"""

from __future__ import annotations

from drivetrain.events.hook import Hook

_EVALUATIONS = {"validation": "validate", "test": "test", "predict": "predict"}


def _around(stage: str, verb: str) -> tuple[Hook, ...]:
    batch = ("batch", "batch_idx", "dataloader_idx")
    return (
        Hook(f"on_{stage}_start", f"before the first batch that `{verb}` runs; the module is in eval mode"),
        Hook(f"on_{stage}_epoch_start", f"after on_{stage}_start"),
        Hook(f"on_{stage}_batch_start", "before each batch, on the rank that has it", batch),
        Hook(f"on_{stage}_batch_end", "after each batch, with what the step returned", ("outputs", *batch)),
        Hook(f"on_{stage}_epoch_end", "after the last batch; values logged here count once a rank"),
        Hook(f"on_{stage}_end", "after the logged values of all ranks are reduced"),
    )


HOOKS: dict[str, Hook] = {
    hook.name: hook
    for hook in (
        Hook("setup", "on every rank, before the module moves to its device", ("stage",)),
        Hook(
            "on_load_checkpoint", "a checkpoint was read; before anything of it is taken up", ("checkpoint",)
        ),
        Hook("on_fit_start", "fit begins; the module is on its device, optimizers are there"),
        Hook("on_train_start", "before the first epoch of this run"),
        Hook(
            "on_train_epoch_start", "before the first batch of an epoch; not again when it is resumed midway"
        ),
        Hook("on_train_batch_start", "before each step; returning -1 ends the epoch", ("batch", "batch_idx")),
        Hook("on_before_zero_grad", "before gradients are cleared", ("optimizer",)),
        Hook("on_before_backward", "the loss is there", ("loss",)),
        Hook("on_after_backward", "gradients are there, averaged over ranks"),
        Hook("on_before_optimizer_step", "before parameters change", ("optimizer",)),
        Hook(
            "on_train_batch_end",
            "after each step; counters and step schedulers have moved",
            ("outputs", "batch", "batch_idx"),
        ),
        *_around("validation", _EVALUATIONS["validation"]),
        Hook(
            "on_train_epoch_end", "after the epoch's last batch and its validation; epoch values are reduced"
        ),
        Hook(
            "on_save_checkpoint",
            "a checkpoint is about to be written; may add plain data to it",
            ("checkpoint",),
        ),
        Hook("on_train_end", "after the last epoch"),
        Hook("on_fit_end", "fit ends; the module is still on its device"),
        *_around("test", _EVALUATIONS["test"]),
        *_around("predict", _EVALUATIONS["predict"]),
        Hook(
            "on_exception",
            "a run stops with an exception, KeyboardInterrupt included",
            ("exception",),
            on_module=False,
        ),
        Hook("teardown", "on every rank, at the end of each verb", ("stage",)),
    )
}
"""By name."""

STEPS = ("training_step", "validation_step", "test_step", "predict_step", "configure_optimizers")
"""What a module implements beside hooks."""

LATER = (
    "backward",
    "configure_callbacks",
    "configure_gradient_clipping",
    "configure_model",
    "configure_sharded_model",
    "lr_scheduler_step",
    "on_after_batch_transfer",
    "on_before_batch_transfer",
    "on_predict_model_eval",
    "on_sanity_check_end",
    "on_sanity_check_start",
    "on_test_model_eval",
    "on_test_model_train",
    "on_validation_model_eval",
    "on_validation_model_train",
    "on_validation_model_zero_grad",
    "optimizer_step",
    "optimizer_zero_grad",
    "transfer_batch_to_device",
)
"""Known names that this release does not call. Overriding one is an error, not a silent nothing."""

GONE = {
    "on_epoch_end": "on_train_epoch_end or on_validation_epoch_end",
    "on_epoch_start": "on_train_epoch_start or on_validation_epoch_start",
    "on_batch_end": "on_train_batch_end",
    "on_batch_start": "on_train_batch_start",
    "on_init_end": "setup",
    "on_init_start": "setup",
    "on_pretrain_routine_end": "on_fit_start",
    "on_pretrain_routine_start": "on_fit_start",
    "predict_epoch_end": "on_predict_epoch_end",
    "test_epoch_end": "on_test_epoch_end",
    "test_step_end": "test_step",
    "training_epoch_end": "on_train_epoch_end",
    "training_step_end": "training_step",
    "validation_epoch_end": "on_validation_epoch_end",
    "validation_step_end": "validation_step",
}
"""Hooks of earlier libraries, and what does their work now."""
