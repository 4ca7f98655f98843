"""SLURM's srun. An interactive shell inside an allocation is not a launch."""

from drivetrain.resolver.facts import EnvironmentFacts

FACTS = (
    EnvironmentFacts(
        name="slurm",
        title="SLURM",
        preference=20,
        dialects=(
            {
                "rank": "SLURM_PROCID",
                "world_size": "SLURM_NTASKS",
                "local_rank": "SLURM_LOCALID",
                "node_rank": "SLURM_NODEID",
                "num_nodes?": "SLURM_NNODES",
            },
        ),
        unless={"SLURM_JOB_NAME": ("bash", "dash", "fish", "interactive", "ksh", "sh", "tcsh", "csh", "zsh")},
        # srun inside of an interactive allocation keeps the shell's job name.
        started="SLURM_STEP_NUM_TASKS",
        runtime="drivetrain.environments.slurm:SLURMEnvironment",
    ),
)
