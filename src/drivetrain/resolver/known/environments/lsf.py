"""LSF's jsrun."""

from drivetrain.resolver.facts import EnvironmentFacts

FACTS = (
    EnvironmentFacts(
        name="lsf",
        title="LSF",
        preference=40,
        dialects=(
            {
                "rank": "JSM_NAMESPACE_RANK",
                "world_size": "JSM_NAMESPACE_SIZE",
                "local_rank": "JSM_NAMESPACE_LOCAL_RANK",
                "local_world_size?": "JSM_NAMESPACE_LOCAL_SIZE",
            },
        ),
        also=("LSB_JOBID", "LSB_DJOB_RANKFILE"),
        runtime="drivetrain.environments.lsf:LSFEnvironment",
    ),
)
