"""Floor 8: other libraries' names for our objects, so that code written for them runs here.

::

    lightning/        drivetrain.compat.lightning, the mirror of lightning.pytorch; its command
    fabric/           drivetrain.compat.fabric, the mirror of lightning.fabric
    table.py          TABLE: every module and name, and our object for it
    mirror.py         the modules, made of the table; install
    running.py        runs a script under the mirror, again in processes that it starts
    known_errors.py   the kinds by which our errors and warnings are known
    module.py         LightningModule, LightningDataModule
    trainer.py        Trainer, with that library's defaults
    checkpointing.py  ModelCheckpoint, in the logger's folder
    keeping.py        loggers under that library's folder names
    cli.py            LightningCLI and its parser
    engine.py         Fabric
    gathering.py      all_gather through which gradients flow
    strategies.py     DDPStrategy and others, with that library's arguments
    strategy_view.py  a run's strategy with the methods that users call
    boring.py         small models and data sets for tests
    kinds.py          enumerations and types
    rank_zero.py      rank_zero_only and its like
    tools.py          functions
"""
