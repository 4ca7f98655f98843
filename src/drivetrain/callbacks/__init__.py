"""Floor 5: what acts on a run from outside of the module.

::

    average.py          Average: the running average of a module's weights, and its exchange with them
    backbone_finetuning.py  BackboneFinetuning: unfreezes ``module.backbone`` at an epoch
    base_finetuning.py  BaseFinetuning: freezes parts before the fit, and unfreezes them within it
    batch_norm.py       batch norm's running statistics, computed anew
    callback.py         Callback: every hook, empty; Checkpoint: one that saves
    checkpoint.py       ModelCheckpoint: saves every so often, and keeps the best, the newest, or all
    checkpoint_name.py  file names from a template
    claims.py           who takes a free name, of several runs that save into one folder
    clock.py            a time that is over at the same step on every rank
    device_stats_monitor.py  DeviceStatsMonitor: what the device tells about itself
    drawn_bar.py        when a bar that is redrawn opens, moves and closes
    early_stopping.py   EarlyStopping: ends a fit when a value stops improving
    gradient_accumulation.py  GradientAccumulationScheduler: how many batches a step takes, by epoch
    lambda_callback.py  LambdaCallback: functions as hooks
    learning_rate_monitor.py  LearningRateMonitor: writes down what steps are taken with
    line_progress.py    LineProgress: one line every few seconds
    model_pruning.py    ModelPruning: sets the least important weights to zero
    model_summary.py    ModelSummary: the table of layers, before a fit
    monitor.py          a logged value that a callback decides by, and whether it is of now
    on_exception.py     OnExceptionCheckpoint: saves a run that stops with an exception
    own_files.py        which files are a run's own, and the removal of those only
    param_groups.py     parameter groups that come, or get other rates, under schedulers that run
    prediction_writer.py  BasePredictionWriter: writes predictions as they come, or at the end
    pruned.py           parameters with masks, as torch keeps them, and plain again
    ranking.py          which checkpoints are the best
    refusal.py          the error for a callback's argument
    rich_model_summary.py  RichModelSummary: the same in colour
    progress_bar.py     ProgressBar: what every progress bar knows of a run
    rich_progress_bar.py  RichProgressBar: bars as rich draws them
    say.py              one line to a person, on rank 0
    shelf.py            what one run has saved and keeps
    spike_detection.py  SpikeDetection: ends a fit when the loss jumps
    stochastic_weight_averaging.py  StochasticWeightAveraging: ends with the mean of the last epochs
    throughput.py       Throughput: rates over the last batches
    throughput_monitor.py  ThroughputMonitor: samples, items and FLOPs a second
    tqdm_progress_bar.py  TQDMProgressBar: bars as tqdm draws them
    timer.py            Timer: a time budget
    triggers.py         when something that is done every so often is due
    weight_averaging.py WeightAveraging, EMAWeightAveraging: validate, save and end with an average
"""

from drivetrain.callbacks.backbone_finetuning import BackboneFinetuning
from drivetrain.callbacks.base_finetuning import BaseFinetuning
from drivetrain.callbacks.callback import Callback, Checkpoint
from drivetrain.callbacks.checkpoint import ModelCheckpoint
from drivetrain.callbacks.device_stats_monitor import DeviceStatsMonitor
from drivetrain.callbacks.early_stopping import EarlyStopping, EarlyStoppingReason
from drivetrain.callbacks.gradient_accumulation import GradientAccumulationScheduler
from drivetrain.callbacks.lambda_callback import LambdaCallback
from drivetrain.callbacks.learning_rate_monitor import LearningRateMonitor
from drivetrain.callbacks.line_progress import LineProgress
from drivetrain.callbacks.model_pruning import ModelPruning
from drivetrain.callbacks.model_summary import ModelSummary
from drivetrain.callbacks.on_exception import OnExceptionCheckpoint
from drivetrain.callbacks.prediction_writer import BasePredictionWriter
from drivetrain.callbacks.progress_bar import ProgressBar
from drivetrain.callbacks.rich_model_summary import RichModelSummary
from drivetrain.callbacks.rich_progress_bar import RichProgressBar, RichProgressBarTheme
from drivetrain.callbacks.spike_detection import SpikeDetection
from drivetrain.callbacks.stochastic_weight_averaging import StochasticWeightAveraging
from drivetrain.callbacks.throughput import Throughput
from drivetrain.callbacks.throughput_monitor import ThroughputMonitor
from drivetrain.callbacks.timer import Timer
from drivetrain.callbacks.tqdm_progress_bar import TQDMProgressBar
from drivetrain.callbacks.weight_averaging import EMAWeightAveraging, WeightAveraging

__all__ = [
    "BackboneFinetuning",
    "BaseFinetuning",
    "BasePredictionWriter",
    "Callback",
    "Checkpoint",
    "DeviceStatsMonitor",
    "EMAWeightAveraging",
    "EarlyStopping",
    "EarlyStoppingReason",
    "GradientAccumulationScheduler",
    "LambdaCallback",
    "LearningRateMonitor",
    "LineProgress",
    "ModelCheckpoint",
    "ModelPruning",
    "ModelSummary",
    "OnExceptionCheckpoint",
    "ProgressBar",
    "RichModelSummary",
    "RichProgressBar",
    "RichProgressBarTheme",
    "SpikeDetection",
    "StochasticWeightAveraging",
    "TQDMProgressBar",
    "Throughput",
    "ThroughputMonitor",
    "Timer",
    "WeightAveraging",
]
