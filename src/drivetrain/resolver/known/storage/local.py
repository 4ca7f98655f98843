"""One file on a local disk, and torch's synchronised batch norm."""

from drivetrain.resolver.facts import CheckpointIOFacts, LayerSyncFacts

FACTS = (
    CheckpointIOFacts(
        "local",
        "one .ckpt file, written whole or not at all",
        runtime="drivetrain.checkpoint_io.local:LocalCheckpointIO",
    ),
    CheckpointIOFacts("sharded", "a folder of shards (torch.distributed.checkpoint)"),
    LayerSyncFacts("batchnorm", "torch's SyncBatchNorm"),
)
