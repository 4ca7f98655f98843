"""One file, written at once or by a thread, and batch norm over all ranks."""

from drivetrain.resolver.facts import CheckpointIOFacts, LayerSyncFacts

FACTS = (
    CheckpointIOFacts(
        "local",
        "one .ckpt file, written whole or not at all",
        runtime="drivetrain.checkpoint_io.local:LocalCheckpointIO",
    ),
    CheckpointIOFacts(
        "async",
        "the same file, copied first and written by a thread",
        runtime="drivetrain.checkpoint_io.deferred:AsyncCheckpointIO",
    ),
    CheckpointIOFacts("sharded", "a folder of shards (torch.distributed.checkpoint)"),
    LayerSyncFacts(
        "batchnorm", "batch norm over all ranks", "drivetrain.strategies.layer_sync:BatchNormSync"
    ),
)
