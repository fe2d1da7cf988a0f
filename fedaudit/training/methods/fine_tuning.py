"""`fine-tuning`: each client descends from its hypothesis on its own rows, and keeps the result."""

from dataclasses import dataclass

from fedaudit.spec.methods.method_kinds import FineTuning
from fedaudit.training.methods.training_method import LossWeighting, PersonalSteps, TrainingMethod


@dataclass(frozen=True)
class FineTuningMethod(TrainingMethod):
    """`fine-tuning` in training."""

    method: FineTuning
    local_step_size: float
    name = "fine-tuning"

    @property
    def personal_steps(self) -> PersonalSteps | None:
        """Plain descent."""
        return PersonalSteps(self.method.steps, self.method.step_size or self.local_step_size)

    @property
    def weighting(self) -> LossWeighting | None:
        """None: clients send their updates."""
        return None
