"""torch_xla's own spawn."""

from drivetrain.resolver.facts import LauncherFacts

FACTS = (LauncherFacts("xla", "torch_xla's own spawn", accelerators=frozenset({"tpu"})),)
