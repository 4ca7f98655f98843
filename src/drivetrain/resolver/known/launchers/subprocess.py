"""Fresh Python processes that get the work as a payload; the script is not run again."""

from drivetrain.resolver.facts import LauncherFacts

FACTS = (
    LauncherFacts(
        "subprocess",
        "fresh Python processes, work sent as a payload",
        runtime="drivetrain.launchers.subprocess:SubprocessLauncher",
    ),
)
