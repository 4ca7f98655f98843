"""drivetrain: trains PyTorch models on whatever hardware there is, one flag per decision.

Names load when they are first used, so ``import drivetrain`` costs nothing and loads no torch.
"""

from __future__ import annotations

import importlib
from typing import Any

from drivetrain._version import __version__

_HOMES = {
    "accelerators.accelerator": ("Accelerator",),
    "accelerators.cpu": ("CPUAccelerator",),
    "accelerators.cuda": ("CUDAAccelerator",),
    "base.errors": (
        "BuildError",
        "CheckpointError",
        "CollectiveError",
        "CompatError",
        "Conflict",
        "DataError",
        "DrivetrainDeprecationWarning",
        "DrivetrainError",
        "DrivetrainWarning",
        "EngineError",
        "LaunchError",
        "LoggerError",
        "ModuleError",
        "Notice",
        "PlanError",
        "ProfilerError",
        "RankFailure",
        "SpikeError",
        "TrainerError",
    ),
    "base.origin": ("Origin", "Sourced"),
    "base.quantity": ("Quantity",),
    "callbacks.backbone_finetuning": ("BackboneFinetuning",),
    "callbacks.base_finetuning": ("BaseFinetuning",),
    "callbacks.callback": ("Callback", "Checkpoint"),
    "callbacks.checkpoint": ("ModelCheckpoint",),
    "callbacks.device_stats_monitor": ("DeviceStatsMonitor",),
    "callbacks.early_stopping": ("EarlyStopping", "EarlyStoppingReason"),
    "callbacks.gradient_accumulation": ("GradientAccumulationScheduler",),
    "callbacks.lambda_callback": ("LambdaCallback",),
    "callbacks.learning_rate_monitor": ("LearningRateMonitor",),
    "callbacks.line_progress": ("LineProgress",),
    "callbacks.model_pruning": ("ModelPruning",),
    "callbacks.model_summary": ("ModelSummary",),
    "callbacks.on_exception": ("OnExceptionCheckpoint",),
    "callbacks.prediction_writer": ("BasePredictionWriter",),
    "callbacks.progress_bar": ("ProgressBar",),
    "callbacks.rich_model_summary": ("RichModelSummary",),
    "callbacks.rich_progress_bar": ("RichProgressBar", "RichProgressBarTheme"),
    "callbacks.spike_detection": ("SpikeDetection",),
    "callbacks.stochastic_weight_averaging": ("StochasticWeightAveraging",),
    "callbacks.throughput": ("Throughput",),
    "callbacks.throughput_monitor": ("ThroughputMonitor",),
    "callbacks.timer": ("Timer",),
    "callbacks.tqdm_progress_bar": ("TQDMProgressBar",),
    "callbacks.weight_averaging": ("EMAWeightAveraging", "WeightAveraging"),
    "checkpoint_io.checkpoint_io": ("CheckpointIO",),
    "checkpoint_io.deferred": ("AsyncCheckpointIO",),
    "checkpoint_io.local": ("LocalCheckpointIO",),
    "checkpoint_io.wrapping": ("WrappingCheckpointIO",),
    "collectives.collectives": ("Collectives",),
    "collectives.place": ("Place",),
    "data.combined": ("CombinedLoader",),
    "data.seeds": ("seed_everything",),
    "engine": ("Engine", "EngineLoader", "EngineModule"),
    "environments.environment": ("ClusterEnvironment",),
    "environments.kubeflow": ("KubeflowEnvironment",),
    "environments.lsf": ("LSFEnvironment",),
    "environments.mpi": ("MPIEnvironment",),
    "environments.slurm": ("SLURMEnvironment",),
    "environments.torchrun": ("TorchrunEnvironment",),
    "launchers.launcher": ("Launcher",),
    "loggers.comet": ("CometLogger",),
    "loggers.csv": ("CSVLogger",),
    "loggers.logger": ("Logger",),
    "loggers.mlflow": ("MLFlowLogger",),
    "loggers.tensorboard": ("TensorBoardLogger",),
    "loggers.wandb": ("WandbLogger",),
    "loops.fit_result": ("FitResult",),
    "machine.snapshot": ("Machine",),
    "modules.datamodule": ("DataModule",),
    "modules.flops": ("measure_flops",),
    "modules.module": ("Module",),
    "modules.summary": ("summarize",),
    "precision.float8": ("Float8Precision",),
    "precision.mixed": ("MixedPrecision",),
    "precision.precision": ("Precision",),
    "precision.report": ("PrecisionReport", "PrecisionRow"),
    "precision.true": ("TruePrecision",),
    "profilers.advanced": ("AdvancedProfiler",),
    "profilers.pass_through": ("PassThroughProfiler",),
    "profilers.profiler": ("Profiler",),
    "profilers.pytorch": ("PyTorchProfiler",),
    "profilers.simple": ("SimpleProfiler",),
    "program.cli": ("CLI",),
    "program.optimizing": ("instantiate_class",),
    "program.saved_config": ("SaveConfigCallback",),
    "resolver.facts": (
        "AcceleratorFacts",
        "CheckpointIOFacts",
        "EnvironmentFacts",
        "LauncherFacts",
        "LayerSyncFacts",
        "Option",
        "PrecisionFacts",
        "StrategyFacts",
    ),
    "resolver.front": ("plan",),
    "resolver.plan": ("Plan",),
    "resolver.ranks": ("Ranks",),
    "resolver.spec": ("NamedSpec", "StrategySpec"),
    "resolver.known.strategies.cp": ("CPStrategy",),
    "resolver.known.strategies.ddp": ("DDPStrategy",),
    "resolver.known.strategies.deepspeed": ("DeepSpeedStrategy",),
    "resolver.known.strategies.ep": ("EPStrategy",),
    "resolver.known.strategies.fsdp": ("FSDPStrategy",),
    "resolver.known.strategies.horovod": ("HorovodStrategy",),
    "resolver.known.strategies.hsdp": ("HSDPStrategy",),
    "resolver.known.strategies.ipu": ("IPUStrategy",),
    "resolver.known.strategies.local_sgd": ("LocalSGDStrategy",),
    "resolver.known.strategies.pp": ("PPStrategy",),
    "resolver.known.strategies.single": ("SingleStrategy",),
    "resolver.known.strategies.tp": ("TPStrategy",),
    "resolver.known.strategies.xla": ("XLAStrategy",),
    "resolver.known.strategies.xla_fsdp": ("XLAFSDPStrategy",),
    "resolver.known.strategies.zero1": ("ZeRO1Strategy",),
    "strategies.layer_sync": ("LayerSync",),
    "strategies.strategy": ("Parts", "Strategy"),
    "trainer": ("Trainer",),
    "trainer.verify": ("ResumeReport",),
    "tuner.batch_size_finder": ("BatchSizeFinder",),
    "tuner.learning_rate_finder": ("LearningRateFinder",),
    "tuner.lr_find": ("LRSearch",),
    "tuner.tuner": ("Tuner",),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}
_OLD_NAMES = "resolver.old_names"

__all__ = ["__version__", *sorted(_HOME)]  # noqa: PLE0604 - made from the table above


def __getattr__(name: str) -> Any:  # noqa: ANN401 - any public name
    """Load a public name, or an old class name, from its module."""
    load = importlib.import_module(f"{__name__}.base.loading").load
    home = _HOME.get(name)
    if home is not None:
        value = getattr(load(f"{__name__}.{home}"), name)
        globals()[name] = value
        return value
    if not name.startswith("_"):
        old = load(f"{__name__}.{_OLD_NAMES}").old_class(name)
        if old is not None:
            return old
    message = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(message)


def __dir__() -> list[str]:
    """List the public names."""
    return list(__all__)
