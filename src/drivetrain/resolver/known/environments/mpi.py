"""MPI: Open MPI, or MPICH and Intel MPI through PMI."""

from drivetrain.resolver.facts import EnvironmentFacts

FACTS = (
    EnvironmentFacts(
        name="mpi",
        title="MPI",
        preference=30,
        dialects=(
            {
                "rank": "OMPI_COMM_WORLD_RANK",
                "world_size": "OMPI_COMM_WORLD_SIZE",
                "local_rank": "OMPI_COMM_WORLD_LOCAL_RANK",
                "local_world_size": "OMPI_COMM_WORLD_LOCAL_SIZE",
            },
            {
                "rank": "PMI_RANK",
                "world_size": "PMI_SIZE",
                "local_rank": "MPI_LOCALRANKID",
                "local_world_size": "MPI_LOCALNRANKS",
            },
        ),
        runtime="drivetrain.environments.mpi:MPIEnvironment",
    ),
)
