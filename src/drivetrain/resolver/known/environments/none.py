"""Nobody manages the ranks but this library."""

from drivetrain.resolver.facts import EnvironmentFacts

FACTS = (EnvironmentFacts("none", "nobody; this library starts the ranks"),)
