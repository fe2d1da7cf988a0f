"""`hypotheses`: clients send their updates, and are scored by the hypothesis that they choose."""

from dataclasses import dataclass

from fedaudit.training.methods.training_method import LossWeighting, PersonalSteps, TrainingMethod


@dataclass(frozen=True)
class HypothesesMethod(TrainingMethod):
    """`hypotheses` in training."""

    name = "hypotheses"

    @property
    def personal_steps(self) -> PersonalSteps | None:
        """None."""
        return None

    @property
    def weighting(self) -> LossWeighting | None:
        """None."""
        return None
