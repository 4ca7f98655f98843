"""No process is started: there is one rank, or somebody else started them."""

from drivetrain.resolver.facts import LauncherFacts

FACTS = (
    LauncherFacts(
        "none",
        "one rank, this process",
        starts_processes=False,
        runtime="drivetrain.launchers.here:NoLauncher",
    ),
    LauncherFacts(
        "external",
        "the ranks were started by torchrun, SLURM, MPI, ...",
        starts_processes=False,
        runtime="drivetrain.launchers.here:ExternalLauncher",
    ),
)
