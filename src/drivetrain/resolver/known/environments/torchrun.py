"""torchrun (torch.distributed.run), or the same variables set by hand."""

from drivetrain.resolver.facts import EnvironmentFacts

FACTS = (
    EnvironmentFacts(
        name="torchrun",
        title="torchrun",
        preference=50,
        dialects=(
            {
                "rank": "RANK",
                "world_size": "WORLD_SIZE",
                "local_rank": "LOCAL_RANK",
                "local_world_size": "LOCAL_WORLD_SIZE",
                "node_rank": "GROUP_RANK",
            },
            {
                "rank": "RANK",
                "world_size": "WORLD_SIZE",
                "local_rank": "LOCAL_RANK",
                "main_address": "MASTER_ADDR",
                "main_port": "MASTER_PORT",
                "local_world_size?": "LOCAL_WORLD_SIZE",
                "node_rank?": "GROUP_RANK",
            },
        ),
        runtime="drivetrain.environments.torchrun:TorchrunEnvironment",
    ),
)
