"""Floor 5: where logged values go. Each package of others is loaded only when its logger is used.

::

    logger.py           Logger: the interface, and the guard that keeps other ranks silent
    silence.py          what ``experiment`` is on other ranks
    rank.py             whether this process is rank 0, before a run says so
    csv.py              CSVLogger: metrics.csv, hparams.yaml
    table.py            a CSV file that grows in rows and in columns
    tensorboard.py      TensorBoardLogger
    wandb.py            WandbLogger
    mlflow.py           MLFlowLogger
    comet.py            CometLogger
    folder.py           save_dir/name/version_N, on a disk or through fsspec
    hyperparameters.py  any hyperparameters as plain data, nested or flat
    saved.py            a callback's checkpoints, for loggers that upload them
    package.py          the error for a package that is not installed
    start.py            what a run does with its loggers when it begins
"""

from drivetrain.base.loading import at_home

__getattr__, __dir__ = at_home(__name__)
