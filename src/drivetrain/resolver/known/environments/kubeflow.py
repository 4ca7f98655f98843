"""Kubeflow's PyTorchJob: one process a pod."""

from drivetrain.resolver.facts import EnvironmentFacts

FACTS = (
    EnvironmentFacts(
        name="kubeflow",
        title="Kubeflow",
        preference=10,
        dialects=(
            {
                "rank": "RANK",
                "world_size": "WORLD_SIZE",
                "main_address": "MASTER_ADDR",
                "main_port": "MASTER_PORT",
            },
        ),
        also=("KUBERNETES_PORT",),
        absent=("LOCAL_RANK",),
        runtime="drivetrain.environments.kubeflow:KubeflowEnvironment",
    ),
)
