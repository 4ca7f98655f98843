"""Nobody manages the ranks but this library."""

from drivetrain.plan.facts import EnvironmentFacts

FACTS = (EnvironmentFacts("none", "nobody; this library starts the ranks"),)
