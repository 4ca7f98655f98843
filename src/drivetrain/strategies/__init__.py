"""Floor 4: the parallel algorithms at run time.

::

    strategy.py   Strategy: the interface, and what all share; Parts: what it owns
    making.py     where and in which format new modules are made
    forward.py    a module's step as a forward, for wrappers that watch forward
    clipping.py   gradient clipping where each rank has whole gradients
    own_steps.py  optimizers that their user steps, where the loss is scaled
    single.py     SingleRuntime: one device
    ddp.py        DDPRuntime: a whole model on each rank, gradients averaged
    zero1.py      ZeRO1Runtime: the same, and of the optimizers' state a part on each rank
    averaging.py  averages gradients over ranks; held by strategies
    shards.py     shares optimizers out over ranks; held by strategies
"""
