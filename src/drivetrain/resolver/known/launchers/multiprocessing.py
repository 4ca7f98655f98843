"""Python's own start methods."""

from drivetrain.resolver.facts import LauncherFacts

_RUNTIME = "drivetrain.launchers.multiprocessing:MultiprocessingLauncher"

FACTS = (
    LauncherFacts("spawn", "multiprocessing's spawn", runtime=_RUNTIME),
    LauncherFacts(
        "fork", "multiprocessing's fork: shares this process's memory", needs_fork=True, runtime=_RUNTIME
    ),
    LauncherFacts("forkserver", "multiprocessing's forkserver", needs_fork=True, runtime=_RUNTIME),
)
