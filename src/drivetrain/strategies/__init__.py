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
    local_sgd.py  LocalSGDRuntime: ranks step alone and average their models now and then
    fsdp.py       FSDPRuntime: each rank has a part of everything
    averaging.py  averages gradients over ranks within backward; held by strategies
    comm_hooks.py how gradients travel: shorter, or as factors
    use.py        which parameters a backward uses
    mean.py       averages gradients and models apart from any backward
    shards.py     shares optimizers out over ranks; held by strategies
    dtensors.py   tensors in parts: put together, measured, clipped
    layer_sync.py LayerSync: layers that see all ranks' batches; BatchNormSync: batch norm
    together.py   batches of an evaluation, for ranks that run the model only together
    parts.py      this rank's part of a tensor
    mesh.py       the mesh of a run's ranks
    units.py      which modules are sharded each by itself
    materializing.py  gives memory and values to what was made without
    unwrapping.py takes torch's sharding off a module again
"""
