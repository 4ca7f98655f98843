"""Floor 7: the command line of a user's own program.

::

    cli.py           CLI: fit, validate, test and predict from arguments and YAML files
    parser.py        Parser: arguments made of the signatures of classes
    optimizing.py    optimizers and schedulers that the command line chooses
    saved_config.py  SaveConfigCallback: what was said, in a file beside the run
"""
