"""HOOKS: all hooks, in the order in which a run calls them.

At each moment the callbacks come first, in their order, then the module, then the callbacks that look at
what was logged and decide (``decides``), then those that come last (``is_last``: those that save), so that
they see and store what all others have done. Where a checkpoint is loaded the module comes first.
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
            "on_load_checkpoint",
            "a checkpoint was read; the module's comes before anything is taken up, the callbacks' after the "
            "weights: an entry of state_dict that one of them replaced is loaded then",
            ("checkpoint",),
            module_first=True,
        ),
        Hook("on_fit_start", "fit begins; the module is on its device, optimizers are there"),
        Hook(
            "on_sanity_check_start",
            "before the few validation batches that come before a fit",
            on_module=False,
        ),
        Hook("on_sanity_check_end", "after them; what they logged is forgotten", on_module=False),
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
        Hook("teardown", "on every rank, at the end of each verb, also after a failure", ("stage",)),
    )
}
"""By name."""

STEPS = ("training_step", "validation_step", "test_step", "predict_step", "configure_optimizers")
"""What a module implements beside hooks."""

OVERRIDES: dict[str, Hook] = {
    hook.name: hook
    for hook in (
        Hook(
            "configure_callbacks", "once a run, before it: more callbacks, which replace those of their class"
        ),
        Hook("configure_model", "on every rank, after setup and before the module moves: makes large layers"),
        Hook(
            "on_before_batch_transfer",
            "returns the batch that is to be moved; also of a data module",
            ("batch", "dataloader_idx"),
        ),
        Hook(
            "transfer_batch_to_device",
            "returns the batch on the device; also of a data module",
            ("batch", "device", "dataloader_idx"),
        ),
        Hook(
            "on_after_batch_transfer",
            "returns the batch that the step gets; also of a data module",
            ("batch", "dataloader_idx"),
        ),
        Hook("count_tokens", "returns how many tokens a batch has, for what counts in tokens", ("batch",)),
        Hook("backward", "computes gradients", ("loss",)),
        Hook("optimizer_zero_grad", "clears gradients", ("epoch", "batch_idx", "optimizer")),
        Hook(
            "configure_gradient_clipping",
            "clips gradients, with what the Trainer was told",
            ("optimizer", "gradient_clip_val", "gradient_clip_algorithm"),
        ),
        Hook(
            "optimizer_step",
            "changes the parameters; must call the closure, which computes the gradients first",
            ("epoch", "batch_idx", "optimizer", "optimizer_closure"),
        ),
        Hook("lr_scheduler_step", "steps a scheduler", ("scheduler", "metric")),
        Hook("on_validation_model_zero_grad", "before a validation inside fit: nothing, unless overridden"),
        *(
            Hook(f"on_{stage}_model_{mode}", f"puts the module into {mode} mode {when} the {stage} loop")
            for stage in ("validation", "test", "predict")
            for mode, when in (("eval", "before"), ("train", "after"))
        ),
    )
}
"""What a run does itself unless the module overrides it; the arguments are what an override gets."""

GONE = {
    "configure_sharded_model": "configure_model",
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
