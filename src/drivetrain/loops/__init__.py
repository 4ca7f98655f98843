"""Floor 5: the loops. Each verb of the Trainer is one file; all dispatch through events/.

::

    context.py       Context: what a run on one rank has; set-up and tear-down around it
    sources.py       which loader a run reads
    fit.py           FitLoop: epochs and steps      fit_result.py  what fit returns
    evaluation.py    EvaluationLoop: validate, test, validation inside fit
    prediction.py    PredictionLoop: every batch's output, in order
    optimization.py  what configure_optimizers returned; schedulers
    output.py        what training_step returned
    trainable.py     whether a module can be trained as told
    interval.py      when a fit validates and logs, in any unit
    results.py       logged values               slots.py  one logged value
    ways.py          how a name is logged, and where that differs
    refusal.py       the errors of a fit's loops
    progress.py      Progress: where a fit stands
    checkpoint.py    a run as a checkpoint       restoring.py   and back
    meters.py        torchmetrics objects in it  switches.py  what is frozen, what is in eval mode
"""
