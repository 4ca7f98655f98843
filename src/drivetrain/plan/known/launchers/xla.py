"""torch_xla's own spawn."""

from drivetrain.plan.facts import LauncherFacts

FACTS = (LauncherFacts("xla", "torch_xla's own spawn", accelerators=frozenset({"tpu"})),)
