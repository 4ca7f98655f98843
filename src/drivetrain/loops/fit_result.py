"""What fit returns."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class FitResult:
    """What a fit did. The trained weights are in the module that was passed.

    Units:
        duration_s: seconds, on rank 0, from set-up to tear-down.
    """

    epochs: int
    """Epochs that were finished, those before a resume included."""
    steps: int
    """Optimizer steps that were taken, those before a resume included."""
    samples: int
    """Samples that training saw, over all ranks, those before a resume included."""
    tokens: int = 0
    """Tokens that training saw, as samples, where the module counts them."""
    metrics: dict[str, float] = field(default_factory=dict)
    """The newest value of everything that was logged."""
    checkpoint_path: str | None = None
    """The newest checkpoint that a ModelCheckpoint of this run wrote."""
    duration_s: float = 0.0
    steps_here: int = 0
    """Optimizer steps of this call alone."""
    stopped_early: bool = False
    """Whether ``trainer.should_stop`` ended it."""

    @property
    def steps_per_s(self) -> float:
        """Optimizer steps a second, everything around them included."""
        return self.steps_here / self.duration_s if self.duration_s else 0.0
