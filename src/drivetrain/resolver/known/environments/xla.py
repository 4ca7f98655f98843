"""torch_xla on TPU: its runtime knows the ranks; no variables are read."""

from drivetrain.resolver.facts import EnvironmentFacts

FACTS = (EnvironmentFacts("xla", "torch_xla's runtime", accelerators=frozenset({"tpu"})),)
