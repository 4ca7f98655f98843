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
    ranks_apart.py      refuses strategies whose ranks train apart, for callbacks that look at weights
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

from drivetrain.base.loading import at_home

__getattr__, __dir__ = at_home(__name__)
