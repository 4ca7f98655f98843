"""What users of Lightning's Trainer and Fabric know by name, kind by kind; read off Lightning 2.6."""

from __future__ import annotations

from typing import Any


def _words(text: str) -> list[str]:
    return text.split()


ARGUMENTS: dict[str, Any] = {
    "accelerator": "cpu",
    "strategy": "ddp",
    "devices": 1,
    "num_nodes": 1,
    "precision": "32-true",
    "logger": False,
    "callbacks": [],
    "fast_dev_run": True,
    "max_epochs": 2,
    "min_epochs": 1,
    "max_steps": 3,
    "min_steps": 1,
    "max_time": "00:00:01:00",
    "limit_train_batches": 2,
    "limit_val_batches": 0.5,
    "limit_test_batches": 2,
    "limit_predict_batches": 2,
    "overfit_batches": 1,
    "val_check_interval": 0.5,
    "check_val_every_n_epoch": 2,
    "num_sanity_val_steps": 0,
    "log_every_n_steps": 5,
    "enable_checkpointing": False,
    "enable_progress_bar": False,
    "enable_model_summary": False,
    "accumulate_grad_batches": 2,
    "gradient_clip_val": 1.0,
    "gradient_clip_algorithm": "norm",
    "deterministic": "warn",
    "benchmark": False,
    "inference_mode": False,
    "use_distributed_sampler": False,
    "profiler": "simple",
    "detect_anomaly": True,
    "barebones": True,
    "plugins": [],
    "sync_batchnorm": False,
    "reload_dataloaders_every_n_epochs": 1,
    "default_root_dir": ".",
    "enable_autolog_hparams": False,
    "model_registry": "name",
    "suggest_integrations": False,
}
"""Arguments of Trainer, each with a value that is not its default."""

LEGACY_ARGUMENTS = _words("""
    gpus tpu_cores ipus num_processes auto_select_gpus auto_scale_batch_size auto_lr_find
    resume_from_checkpoint amp_backend amp_level replace_sampler_ddp track_grad_norm move_metrics_to_cpu
    multiple_trainloader_mode distributed_backend checkpoint_callback weights_summary
    progress_bar_refresh_rate process_position flush_logs_every_n_steps log_gpu_memory
    prepare_data_per_node terminate_on_nan stochastic_weight_avg weights_save_path truncated_bptt_steps
    reload_dataloaders_every_epoch
""")
"""Arguments of earlier Trainers."""

TRAINER = _words("""
    fit validate test predict save_checkpoint init_module print accelerator strategy precision_plugin
    precision scaler model lightning_module global_rank local_rank node_rank world_size num_nodes
    num_devices device_ids is_global_zero optimizers lr_scheduler_configs current_epoch global_step
    max_epochs min_epochs max_steps min_steps is_last_batch interrupted received_sigterm should_stop
    training validating testing predicting evaluating sanity_checking enable_validation train_dataloader
    val_dataloaders test_dataloaders predict_dataloaders num_training_batches num_val_batches
    num_test_batches num_predict_batches num_sanity_val_batches distributed_sampler_kwargs
    estimated_stepping_batches logger loggers log_dir default_root_dir callback_metrics logged_metrics
    progress_bar_metrics checkpoint_callback checkpoint_callbacks early_stopping_callback
    early_stopping_callbacks progress_bar_callback ckpt_path
""")

VERB_ARGUMENTS = {
    "fit": "train_dataloaders val_dataloaders datamodule ckpt_path weights_only",
    "validate": "dataloaders ckpt_path verbose datamodule weights_only",
    "test": "dataloaders ckpt_path verbose datamodule weights_only",
    "predict": "dataloaders datamodule return_predictions ckpt_path weights_only",
}

CKPT_PATHS = ("best", "last", "hpc", "registry")
"""What ``ckpt_path`` may be beside a path."""

_LOOPS = [
    f"on_{kind}_{moment}"
    for kind in ("validation", "test", "predict")
    for moment in ("start", "end", "epoch_start", "epoch_end", "batch_start", "batch_end")
]
_FIT = _words("""
    on_fit_start on_fit_end on_train_start on_train_end on_train_epoch_start on_train_epoch_end
    on_train_batch_start on_train_batch_end on_before_backward on_after_backward on_before_zero_grad
    on_before_optimizer_step on_save_checkpoint on_load_checkpoint setup teardown state_dict
    load_state_dict
""")

MODULE = [
    *_FIT,
    *_LOOPS,
    *_words("""
    forward training_step validation_step test_step predict_step configure_model configure_sharded_model
    configure_optimizers configure_callbacks prepare_data example_input_array strict_loading
    automatic_optimization on_validation_model_eval on_validation_model_train
    on_validation_model_zero_grad on_test_model_eval on_test_model_train on_predict_model_eval backward
    optimizer_step optimizer_zero_grad configure_gradient_clipping clip_gradients lr_scheduler_step
    manual_backward optimizers lr_schedulers toggle_optimizer untoggle_optimizer toggled_optimizer
    train_dataloader val_dataloader test_dataloader predict_dataloader transfer_batch_to_device
    on_before_batch_transfer on_after_batch_transfer load_from_checkpoint save_hyperparameters hparams
    hparams_initial log log_dict all_gather print logger loggers trainer fabric device dtype device_mesh
    global_rank local_rank current_epoch global_step to_onnx to_torchscript to_tensorrt freeze unfreeze
"""),
]

LOG_ARGUMENTS = _words("""
    prog_bar logger on_step on_epoch reduce_fx enable_graph sync_dist sync_dist_group add_dataloader_idx
    batch_size metric_attribute rank_zero_only
""")

DATAMODULE = _words("""
    prepare_data setup teardown train_dataloader val_dataloader test_dataloader predict_dataloader
    transfer_batch_to_device on_before_batch_transfer on_after_batch_transfer on_exception state_dict
    load_state_dict from_datasets load_from_checkpoint save_hyperparameters hparams
    prepare_data_per_node allow_zero_length_dataloader_with_multiple_devices
""")

COMBINED_MODES = ("min_size", "max_size", "max_size_cycle", "sequential")

CALLBACK = [*_FIT, *_LOOPS, "state_key", "on_exception", "on_sanity_check_start", "on_sanity_check_end"]

CLASSES = _words("""
    ModelCheckpoint Checkpoint OnExceptionCheckpoint EarlyStopping EarlyStoppingReason Timer
    LearningRateMonitor LearningRateFinder BatchSizeFinder GradientAccumulationScheduler
    StochasticWeightAveraging WeightAveraging EMAWeightAveraging BaseFinetuning BackboneFinetuning
    ModelPruning ModelSummary RichModelSummary ProgressBar TQDMProgressBar RichProgressBar
    DeviceStatsMonitor ThroughputMonitor SpikeDetection BasePredictionWriter LambdaCallback
    SaveConfigCallback ServableModuleValidator TensorBoardLogger CSVLogger WandbLogger MLFlowLogger
    CometLogger LitLogger NeptuneLogger Logger DummyLogger SimpleProfiler AdvancedProfiler
    PyTorchProfiler XLAProfiler PassThroughProfiler SingleDeviceStrategy DDPStrategy FSDPStrategy
    ModelParallelStrategy DeepSpeedStrategy XLAStrategy SingleDeviceXLAStrategy DataParallelStrategy
    XLAFSDPStrategy LayerSync TorchSyncBatchNorm Precision DoublePrecision HalfPrecision MixedPrecision
    FSDPPrecision DeepSpeedPrecision XLAPrecision TransformerEnginePrecision BitsandbytesPrecision
    CPUAccelerator CUDAAccelerator MPSAccelerator XLAAccelerator LightningEnvironment
    TorchElasticEnvironment SLURMEnvironment LSFEnvironment MPIEnvironment KubeflowEnvironment
    XLAEnvironment CheckpointIO TorchCheckpointIO XLACheckpointIO AsyncCheckpointIO Collective
    TorchCollective SingleDeviceCollective LightningCLI LightningArgumentParser Tuner CombinedLoader
    ServableModule BoringModel BoringDataModule RandomDataset LightningModule LightningDataModule
    Trainer Fabric Callback
""")
"""Classes, of whichever module."""

FUNCTIONS = _words("""
    seed_everything isolate_rng grad_norm measure_flops find_usable_cuda_devices is_shared_filesystem
    disable_possible_user_warnings rank_zero_only rank_zero_info rank_zero_warn rank_zero_debug
    rank_zero_deprecation convert_zero_checkpoint_to_fp32_state_dict
""")

TUNER = ("lr_find", "scale_batch_size")

COMMANDS = ("fabric run", "fabric consolidate")

_ON_GPUS = {"accelerator": "cuda", "devices": 2}
_ON_TPUS = {"accelerator": "tpu", "devices": 4}

STRATEGIES: dict[str, dict[str, Any]] = {
    **{
        f"{name}{suffix}": _ON_GPUS
        for name in ("ddp", "ddp_spawn", "ddp_fork", "ddp_notebook")
        for suffix in ("", "_find_unused_parameters_true", "_find_unused_parameters_false")
    },
    "fsdp": _ON_GPUS,
    "fsdp_cpu_offload": _ON_GPUS,
    "deepspeed": _ON_GPUS,
    "deepspeed_stage_1": _ON_GPUS,
    "deepspeed_stage_1_offload": _ON_GPUS,
    "deepspeed_stage_2": _ON_GPUS,
    "deepspeed_stage_2_offload": _ON_GPUS,
    "deepspeed_stage_3": _ON_GPUS,
    "deepspeed_stage_3_offload": _ON_GPUS,
    "deepspeed_stage_3_offload_nvme": _ON_GPUS,
    "dp": _ON_GPUS,
    "single_device": {"accelerator": "cuda", "devices": 1},
    "xla": _ON_TPUS,
    "xla_debug": _ON_TPUS,
    "xla_fsdp": _ON_TPUS,
    "single_xla": {"accelerator": "tpu", "devices": 1},
    "single_tpu": {"accelerator": "tpu", "devices": 1},
}
"""Names of strategies, with flags on which each is asked for."""

PRECISIONS = _words("""
    64-true 32-true 16-true bf16-true 16-mixed bf16-mixed transformer-engine transformer-engine-float16
    64 32 16 bf16
""")

ACCELERATORS = _words("cpu cuda gpu mps tpu auto")

FABRIC = _words("""
    run launch setup setup_module setup_optimizers setup_dataloaders backward clip_gradients autocast
    to_device print barrier broadcast all_gather all_reduce rank_zero_first no_backward_sync
    sharded_model init_tensor init_module save load load_raw call log log_dict seed_everything
    accelerator strategy device global_rank local_rank node_rank world_size is_global_zero logger
    loggers
""")

WRAPPED = ("mark_forward_method",)
