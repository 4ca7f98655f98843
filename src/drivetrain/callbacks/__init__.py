"""Floor 5: what acts on a run from outside of the module.

::

    callback.py         Callback: every hook, empty; Checkpoint: one that saves
    checkpoint.py       ModelCheckpoint: saves every so often, and keeps the best, the newest, or all
    checkpoint_name.py  file names from a template
    claims.py           who takes a free name, of several runs that save into one folder
    clock.py            a time that is over at the same step on every rank
    device_stats_monitor.py  DeviceStatsMonitor: what the device tells about itself
    drawn_bar.py        when a bar that is redrawn opens, moves and closes
    early_stopping.py   EarlyStopping: ends a fit when a value stops improving
    lambda_callback.py  LambdaCallback: functions as hooks
    line_progress.py    LineProgress: one line every few seconds
    model_summary.py    ModelSummary: the table of layers, before a fit
    monitor.py          a logged value that a callback decides by, and whether it is of now
    on_exception.py     OnExceptionCheckpoint: saves a run that stops with an exception
    own_files.py        which files are a run's own, and the removal of those only
    ranking.py          which checkpoints are the best
    refusal.py          the error for a callback's argument
    rich_model_summary.py  RichModelSummary: the same in colour
    progress_bar.py     ProgressBar: what every progress bar knows of a run
    rich_progress_bar.py  RichProgressBar: bars as rich draws them
    say.py              one line to a person, on rank 0
    shelf.py            what one run has saved and keeps
    spike_detection.py  SpikeDetection: ends a fit when the loss jumps
    throughput.py       Throughput: rates over the last batches
    throughput_monitor.py  ThroughputMonitor: samples, items and FLOPs a second
    tqdm_progress_bar.py  TQDMProgressBar: bars as tqdm draws them
    timer.py            Timer: a time budget
    triggers.py         when something that is done every so often is due
"""

from drivetrain.callbacks.callback import Callback, Checkpoint
from drivetrain.callbacks.checkpoint import ModelCheckpoint
from drivetrain.callbacks.device_stats_monitor import DeviceStatsMonitor
from drivetrain.callbacks.early_stopping import EarlyStopping, EarlyStoppingReason
from drivetrain.callbacks.lambda_callback import LambdaCallback
from drivetrain.callbacks.line_progress import LineProgress
from drivetrain.callbacks.model_summary import ModelSummary
from drivetrain.callbacks.on_exception import OnExceptionCheckpoint
from drivetrain.callbacks.progress_bar import ProgressBar
from drivetrain.callbacks.rich_model_summary import RichModelSummary
from drivetrain.callbacks.rich_progress_bar import RichProgressBar, RichProgressBarTheme
from drivetrain.callbacks.spike_detection import SpikeDetection
from drivetrain.callbacks.throughput import Throughput
from drivetrain.callbacks.throughput_monitor import ThroughputMonitor
from drivetrain.callbacks.timer import Timer
from drivetrain.callbacks.tqdm_progress_bar import TQDMProgressBar

__all__ = [
    "Callback",
    "Checkpoint",
    "DeviceStatsMonitor",
    "EarlyStopping",
    "EarlyStoppingReason",
    "LambdaCallback",
    "LineProgress",
    "ModelCheckpoint",
    "ModelSummary",
    "OnExceptionCheckpoint",
    "ProgressBar",
    "RichModelSummary",
    "RichProgressBar",
    "RichProgressBarTheme",
    "SpikeDetection",
    "TQDMProgressBar",
    "Throughput",
    "ThroughputMonitor",
    "Timer",
]
