"""TABLE: every public module of Lightning 2.6, the names in it, and which object of ours each one is.

A name is the public object of the same name, ``drivetrain.<Name>``, unless `OWN` says which of this room it
is; ``Name=other`` takes the object of another name. Objects load when they are first asked for.
"""

from __future__ import annotations

MIRRORED = "2.6.1"
"""The release whose module tree this is; what ``lightning.__version__`` answers."""

_PRECISIONS = (
    "BitsandbytesPrecision DeepSpeedPrecision DoublePrecision FSDPPrecision HalfPrecision MixedPrecision "
    "Precision TransformerEnginePrecision XLAPrecision"
)
_ENVIRONMENTS = (
    "ClusterEnvironment KubeflowEnvironment LSFEnvironment LightningEnvironment MPIEnvironment "
    "SLURMEnvironment TorchElasticEnvironment XLAEnvironment"
)
_RANK_ZERO = (
    "LightningDeprecationWarning WarningCache rank_prefixed_message rank_zero_debug rank_zero_deprecation "
    "rank_zero_info rank_zero_only rank_zero_warn"
)
_BOTH = (
    "AttributeDict LightningEnum disable_possible_user_warnings is_shared_filesystem measure_flops "
    "move_data_to_device rank_zero_deprecation rank_zero_info rank_zero_only rank_zero_warn "
    "suggested_max_num_workers"
)

LIGHTNING: dict[str, str] = {
    "": "Callback LightningDataModule LightningModule Trainer disable_possible_user_warnings seed_everything",
    "accelerators": "Accelerator CPUAccelerator CUDAAccelerator MPSAccelerator XLAAccelerator "
    "find_usable_cuda_devices",
    "accelerators.accelerator": "Accelerator",
    "accelerators.cpu": "CPUAccelerator get_cpu_stats",
    "accelerators.cuda": "CUDAAccelerator get_nvidia_gpu_stats",
    "accelerators.mps": "MPSAccelerator get_device_stats",
    "accelerators.xla": "XLAAccelerator",
    "callbacks": "BackboneFinetuning BaseFinetuning BasePredictionWriter BatchSizeFinder Callback Checkpoint "
    "DeviceStatsMonitor EMAWeightAveraging EarlyStopping GradientAccumulationScheduler LambdaCallback "
    "LearningRateFinder LearningRateMonitor ModelCheckpoint ModelPruning ModelSummary OnExceptionCheckpoint "
    "ProgressBar RichModelSummary RichProgressBar SpikeDetection StochasticWeightAveraging TQDMProgressBar "
    "ThroughputMonitor Timer WeightAveraging",
    "callbacks.batch_size_finder": "BatchSizeFinder",
    "callbacks.callback": "Callback",
    "callbacks.checkpoint": "Checkpoint",
    "callbacks.device_stats_monitor": "DeviceStatsMonitor",
    "callbacks.early_stopping": "EarlyStopping EarlyStoppingReason",
    "callbacks.finetuning": "BackboneFinetuning BaseFinetuning multiplicative",
    "callbacks.gradient_accumulation_scheduler": "GradientAccumulationScheduler",
    "callbacks.lambda_function": "LambdaCallback",
    "callbacks.lr_finder": "LearningRateFinder",
    "callbacks.lr_monitor": "LearningRateMonitor",
    "callbacks.model_checkpoint": "ModelCheckpoint",
    "callbacks.model_summary": "ModelSummary",
    "callbacks.on_exception_checkpoint": "OnExceptionCheckpoint",
    "callbacks.prediction_writer": "BasePredictionWriter WriteInterval",
    "callbacks.progress": "ProgressBar RichProgressBar TQDMProgressBar",
    "callbacks.progress.progress_bar": "ProgressBar get_standard_metrics",
    "callbacks.progress.rich_progress": "RichProgressBar RichProgressBarTheme",
    "callbacks.progress.tqdm_progress": "TQDMProgressBar Tqdm convert_inf",
    "callbacks.pruning": "ModelPruning",
    "callbacks.rich_model_summary": "RichModelSummary",
    "callbacks.spike": "SpikeDetection",
    "callbacks.stochastic_weight_avg": "StochasticWeightAveraging",
    "callbacks.throughput_monitor": "ThroughputMonitor",
    "callbacks.timer": "Interval Timer",
    "callbacks.weight_averaging": "EMAWeightAveraging WeightAveraging",
    "cli": "ArgsType LRSchedulerCallable LRSchedulerTypeTuple LRSchedulerTypeUnion LightningArgumentParser "
    "LightningCLI OptimizerCallable ReduceLROnPlateau SaveConfigCallback instantiate_class "
    "instantiate_module",
    "core": "LightningDataModule LightningModule",
    "core.datamodule": "LightningDataModule",
    "core.hooks": "CheckpointHooks DataHooks ModelHooks",
    "core.mixins": "HyperparametersMixin",
    "core.mixins.hparams_mixin": "HyperparametersMixin",
    "core.module": "LightningModule",
    "core.optimizer": "LightningOptimizer do_nothing_closure",
    "core.saving": "load_hparams_from_tags_csv load_hparams_from_yaml save_hparams_to_tags_csv "
    "save_hparams_to_yaml update_hparams",
    "demos": "BoringDataModule BoringModel DemoModel LightningLSTM LightningTransformer SequenceSampler "
    "SimpleLSTM Transformer WikiText2",
    "demos.boring_classes": "BoringDataModule BoringDataModuleNoLen BoringModel DemoModel "
    "IterableBoringDataModule ManualOptimBoringModel Net RandomDataset RandomDictDataset "
    "RandomIterableDataset RandomIterableDatasetWithLen",
    "demos.lstm": "LightningLSTM SequenceSampler SimpleLSTM",
    "demos.mnist_datamodule": "MNIST MNISTDataModule",
    "demos.transformer": "Dictionary LightningTransformer PositionalEncoding Transformer WikiText2 tokenize",
    "loggers": "CSVLogger CometLogger LitLogger Logger MLFlowLogger NeptuneLogger TensorBoardLogger "
    "WandbLogger",
    "loggers.comet": "CometLogger",
    "loggers.csv_logs": "CSVLogger ExperimentWriter",
    "loggers.litlogger": "LitLogger",
    "loggers.logger": "DummyLogger Logger merge_dicts rank_zero_experiment",
    "loggers.mlflow": "MLFlowLogger",
    "loggers.neptune": "NeptuneLogger",
    "loggers.tensorboard": "TensorBoardLogger",
    "loggers.utilities": "",
    "loggers.wandb": "WandbLogger",
    "loops": "",
    "overrides": "",
    "overrides.distributed": "UnrepeatedDistributedSampler UnrepeatedDistributedSamplerWrapper "
    "prepare_for_backward",
    "plugins": f"AsyncCheckpointIO CheckpointIO ClusterEnvironment LayerSync TorchCheckpointIO "
    f"TorchSyncBatchNorm XLACheckpointIO {_PRECISIONS}",
    "plugins.environments": _ENVIRONMENTS,
    "plugins.io": "AsyncCheckpointIO CheckpointIO TorchCheckpointIO XLACheckpointIO",
    "plugins.io.async_plugin": "AsyncCheckpointIO",
    "plugins.io.checkpoint_plugin": "CheckpointIO",
    "plugins.io.torch_plugin": "TorchCheckpointIO",
    "plugins.io.wrapper": "",
    "plugins.io.xla_plugin": "XLACheckpointIO",
    "plugins.layer_sync": "LayerSync TorchSyncBatchNorm",
    "plugins.precision": _PRECISIONS,
    "plugins.precision.amp": "MixedPrecision",
    "plugins.precision.bitsandbytes": "BitsandbytesPrecision",
    "plugins.precision.deepspeed": "DeepSpeedPrecision",
    "plugins.precision.double": "DoublePrecision LightningDoublePrecisionModule",
    "plugins.precision.fsdp": "FSDPPrecision",
    "plugins.precision.half": "HalfPrecision",
    "plugins.precision.precision": "Precision",
    "plugins.precision.transformer_engine": "TransformerEnginePrecision",
    "plugins.precision.xla": "XLAPrecision",
    "profilers": "AdvancedProfiler PassThroughProfiler Profiler PyTorchProfiler SimpleProfiler XLAProfiler",
    "profilers.advanced": "AdvancedProfiler",
    "profilers.base": "PassThroughProfiler",
    "profilers.profiler": "Profiler",
    "profilers.pytorch": "PyTorchProfiler RegisterRecordFunction ScheduleWrapper",
    "profilers.simple": "SimpleProfiler",
    "profilers.xla": "XLAProfiler",
    "strategies": "DDPStrategy DeepSpeedStrategy FSDPStrategy ModelParallelStrategy ParallelStrategy "
    "SingleDeviceStrategy SingleDeviceXLAStrategy Strategy XLAStrategy",
    "strategies.ddp": "DDPStrategy",
    "strategies.deepspeed": "DeepSpeedStrategy remove_module_hooks",
    "strategies.fsdp": "FSDPStrategy",
    "strategies.launchers": "",
    "strategies.model_parallel": "ModelParallelStrategy",
    "strategies.parallel": "ParallelStrategy",
    "strategies.single_device": "SingleDeviceStrategy",
    "strategies.single_xla": "SingleDeviceXLAStrategy",
    "strategies.strategy": "Strategy",
    "strategies.xla": "XLAStrategy",
    "trainer": "Trainer seed_everything",
    "trainer.states": "RunningStage TrainerFn TrainerState TrainerStatus",
    "trainer.trainer": "Trainer",
    "tuner": "Tuner",
    "tuner.tuning": "Tuner",
    "utilities": f"CombinedLoader FLOAT16_EPSILON FLOAT32_EPSILON FLOAT64_EPSILON GradClipAlgorithmType "
    f"find_shared_parameters grad_norm is_picklable set_shared_parameters {_BOTH}",
    "utilities.combined_loader": "CombinedLoader",
    "utilities.compile": "from_compiled to_uncompiled",
    "utilities.data": "extract_batch_size has_len_all_ranks",
    "utilities.deepspeed": "convert_zero_checkpoint_to_fp32_state_dict ds_checkpoint_dir",
    "utilities.enums": "GradClipAlgorithmType LightningEnum",
    "utilities.exceptions": "MisconfigurationException SIGTERMException",
    "utilities.grads": "grad_norm",
    "utilities.imports": "RequirementCache compare_version package_available",
    "utilities.memory": "garbage_collection_cuda is_cuda_out_of_memory is_cudnn_snafu is_oom_error "
    "is_out_of_cpu_memory recursive_detach",
    "utilities.migration": "migrate_checkpoint pl_legacy_patch",
    "utilities.model_helpers": "get_torchvision_model is_overridden",
    "utilities.model_registry": "download_model_from_registry find_model_local_ckpt_path",
    "utilities.model_summary": "DeepSpeedSummary LayerSummary ModelSummary=summarize "
    "get_formatted_model_size get_human_readable_count parse_batch_shape summarize",
    "utilities.parameter_tying": "find_shared_parameters set_shared_parameters",
    "utilities.parsing": "AttributeDict clean_namespace collect_init_args get_init_args is_picklable "
    "lightning_getattr lightning_hasattr lightning_setattr parse_class_init_keys save_hyperparameters",
    "utilities.rank_zero": f"{_RANK_ZERO} rank_zero_module",
    "utilities.seed": "isolate_rng",
    "utilities.signature_utils": "is_param_in_hook_signature",
    "utilities.testing": "",
    "utilities.types": "DistributedDataParallel EVAL_DATALOADERS LRSchedulerConfig LRSchedulerConfigType "
    "LRSchedulerPLType LRSchedulerType LRSchedulerTypeTuple LRSchedulerTypeUnion OptimizerConfig "
    "OptimizerLRScheduler OptimizerLRSchedulerConfig STEP_OUTPUT TRAIN_DATALOADERS",
    "utilities.upgrade_checkpoint": "main=upgrade_checkpoint",
    "utilities.warnings": "PossibleUserWarning",
}
"""``lightning.pytorch``, and ``pytorch_lightning``."""

FABRIC: dict[str, str] = {
    "": "Fabric disable_possible_user_warnings is_wrapped seed_everything",
    "accelerators": "Accelerator CPUAccelerator CUDAAccelerator MPSAccelerator XLAAccelerator "
    "find_usable_cuda_devices",
    "accelerators.accelerator": "Accelerator",
    "accelerators.cpu": "CPUAccelerator",
    "accelerators.cuda": "CUDAAccelerator find_usable_cuda_devices is_cuda_available num_cuda_devices",
    "accelerators.mps": "MPSAccelerator",
    "accelerators.registry": "call_register_accelerators",
    "accelerators.xla": "XLAAccelerator",
    "cli": "main=fabric_command",
    "fabric": "Fabric",
    "loggers": "CSVLogger=FabricCSVLogger Logger TensorBoardLogger=FabricTensorBoardLogger",
    "loggers.csv_logs": "CSVLogger=FabricCSVLogger",
    "loggers.logger": "Logger rank_zero_experiment",
    "loggers.tensorboard": "TensorBoardLogger=FabricTensorBoardLogger",
    "plugins": f"CheckpointIO ClusterEnvironment TorchCheckpointIO XLACheckpointIO {_PRECISIONS}",
    "plugins.collectives": "Collective SingleDeviceCollective TorchCollective",
    "plugins.collectives.collective": "Collective",
    "plugins.collectives.single_device": "SingleDeviceCollective",
    "plugins.collectives.torch_collective": "TorchCollective",
    "plugins.environments": _ENVIRONMENTS,
    "plugins.environments.cluster_environment": "ClusterEnvironment",
    "plugins.environments.kubeflow": "KubeflowEnvironment",
    "plugins.environments.lightning": "LightningEnvironment find_free_network_port",
    "plugins.environments.lsf": "LSFEnvironment",
    "plugins.environments.mpi": "MPIEnvironment",
    "plugins.environments.slurm": "SLURMEnvironment",
    "plugins.environments.torchelastic": "TorchElasticEnvironment",
    "plugins.environments.xla": "XLAEnvironment",
    "plugins.io": "CheckpointIO TorchCheckpointIO XLACheckpointIO",
    "plugins.io.checkpoint_io": "CheckpointIO",
    "plugins.io.torch_io": "TorchCheckpointIO",
    "plugins.io.xla": "XLACheckpointIO",
    "plugins.precision": _PRECISIONS,
    "plugins.precision.amp": "MixedPrecision",
    "plugins.precision.bitsandbytes": "BitsandbytesPrecision",
    "plugins.precision.deepspeed": "DeepSpeedPrecision",
    "plugins.precision.double": "DoublePrecision",
    "plugins.precision.fsdp": "FSDPPrecision",
    "plugins.precision.half": "HalfPrecision",
    "plugins.precision.precision": "Precision",
    "plugins.precision.transformer_engine": "TransformerEnginePrecision",
    "plugins.precision.xla": "XLAPrecision",
    "strategies": "DDPStrategy DataParallelStrategy DeepSpeedStrategy FSDPStrategy ModelParallelStrategy "
    "ParallelStrategy SingleDeviceStrategy SingleDeviceXLAStrategy Strategy XLAFSDPStrategy XLAStrategy",
    "strategies.ddp": "DDPStrategy",
    "strategies.deepspeed": "DeepSpeedStrategy",
    "strategies.dp": "DataParallelStrategy",
    "strategies.fsdp": "FSDPStrategy",
    "strategies.launchers": "",
    "strategies.model_parallel": "ModelParallelStrategy",
    "strategies.parallel": "ParallelStrategy",
    "strategies.single_device": "SingleDeviceStrategy",
    "strategies.single_xla": "SingleDeviceXLAStrategy",
    "strategies.strategy": "Strategy",
    "strategies.xla": "XLAStrategy",
    "strategies.xla_fsdp": "XLAFSDPStrategy",
    "utilities": f"Throughput ThroughputMonitor=FabricThroughputMonitor {_BOTH}",
    "utilities.apply_func": "convert_tensors_to_scalars convert_to_tensors move_data_to_device",
    "utilities.cloud_io": "get_filesystem",
    "utilities.data": "AttributeDict has_iterable_dataset has_len sized_len suggested_max_num_workers",
    "utilities.distributed": "DistributedSamplerWrapper is_shared_filesystem",
    "utilities.enums": "LightningEnum",
    "utilities.exceptions": "MisconfigurationException",
    "utilities.imports": "",
    "utilities.rank_zero": _RANK_ZERO,
    "utilities.seed": "pl_worker_init_function reset_seed seed_everything",
    "utilities.spike": "SpikeDetection TrainingSpikeException",
    "utilities.testing": "",
    "utilities.throughput": "Throughput ThroughputMonitor=FabricThroughputMonitor get_available_flops "
    "measure_flops",
    "utilities.types": "CollectibleGroup Optimizable Steppable",
    "utilities.warnings": "PossibleUserWarning disable_possible_user_warnings",
    "wrappers": "is_wrapped",
}
"""``lightning.fabric``, and ``lightning_fabric``."""

TOP = "Callback Fabric LightningDataModule LightningModule Trainer seed_everything"
"""``lightning`` itself, beside its two subpackages."""

_HOMES = {
    "boring": "BoringDataModule BoringDataModuleNoLen BoringModel DemoModel IterableBoringDataModule "
    "ManualOptimBoringModel Net RandomDataset RandomDictDataset RandomIterableDataset "
    "RandomIterableDatasetWithLen",
    "checkpointing": "ModelCheckpoint",
    "cli": "ArgsType LRSchedulerCallable LightningArgumentParser LightningCLI OptimizerCallable "
    "ReduceLROnPlateau",
    "engine": "Fabric is_wrapped",
    "keeping": "CSVLogger DummyLogger FabricCSVLogger FabricTensorBoardLogger TensorBoardLogger merge_dicts "
    "rank_zero_experiment",
    "kinds": "AttributeDict CollectibleGroup DistributedDataParallel EVAL_DATALOADERS FLOAT16_EPSILON "
    "FLOAT32_EPSILON FLOAT64_EPSILON GradClipAlgorithmType Interval LRSchedulerConfig LRSchedulerConfigType "
    "LRSchedulerPLType LRSchedulerType LRSchedulerTypeTuple LRSchedulerTypeUnion LightningEnum "
    "Optimizable OptimizerConfig OptimizerLRScheduler OptimizerLRSchedulerConfig RunningStage STEP_OUTPUT "
    "Steppable TRAIN_DATALOADERS TrainerFn TrainerState TrainerStatus WriteInterval",
    "known_errors": "LightningDeprecationWarning MisconfigurationException PossibleUserWarning "
    "SIGTERMException TrainingSpikeException",
    "module": "HyperparametersMixin LightningDataModule LightningModule",
    "rank_zero": "WarningCache rank_prefixed_message rank_zero_debug rank_zero_deprecation rank_zero_info "
    "rank_zero_only rank_zero_warn",
    "strategies": "DDPStrategy DeepSpeedStrategy FSDPStrategy ModelParallelStrategy ParallelStrategy "
    "SingleDeviceStrategy XLAStrategy",
    "tools": "convert_tensors_to_scalars convert_to_tensors disable_possible_user_warnings "
    "do_nothing_closure extract_batch_size find_free_network_port find_shared_parameters "
    "find_usable_cuda_devices get_filesystem grad_norm has_iterable_dataset has_len "
    "is_cuda_available is_oom_error is_overridden is_picklable is_shared_filesystem isolate_rng "
    "load_hparams_from_yaml move_data_to_device multiplicative num_cuda_devices "
    "pl_worker_init_function recursive_detach reset_seed save_hparams_to_yaml seed_everything "
    "set_shared_parameters sized_len suggested_max_num_workers",
    "trainer": "Trainer",
}
OWN: dict[str, str] = {name: home for home, names in _HOMES.items() for name in names.split()}
"""Names whose object is in this room, with the file that has it."""

INSTEAD: dict[str, str] = {
    "LitLogger": "use CSVLogger, TensorBoardLogger, WandbLogger, MLFlowLogger or CometLogger",
    "NeptuneLogger": "use WandbLogger, MLFlowLogger or CometLogger; it is gone from Lightning too",
    "instantiate_module": "no checkpoint names a class that loading would import; use instantiate_class",
    "LightningOptimizer": "self.optimizers() gives torch's own optimizers; test for torch.optim.Optimizer",
    "MPSAccelerator": "pass accelerator='mps'",
    "XLAAccelerator": "pass accelerator='tpu'",
    "BitsandbytesPrecision": "quantize the module's layers with bitsandbytes itself",
    "LightningTransformer": "take BoringModel, or examples/ in the repository",
    "RequirementCache": "use importlib.metadata.version",
    "package_available": "use importlib.util.find_spec",
    "compare_version": "use packaging.version",
    "fabric_command": "run the script by torchrun, or put the loop into a function: fabric.launch(main)",
    "DataHooks": "subclass LightningModule or LightningDataModule",
    "CheckpointHooks": "subclass LightningModule",
    "ModelHooks": "subclass LightningModule",
}
"""What to do where a name's object is not there."""
