"""`local-only`: each client trains alone, from the start, and nothing is sent."""

from dataclasses import dataclass

from fedaudit.spec.methods.method_kinds import LocalOnly
from fedaudit.training.methods.training_method import LossWeighting, PersonalSteps, TrainingMethod


@dataclass(frozen=True)
class LocalOnlyMethod(TrainingMethod):
    """`local-only` in training."""

    method: LocalOnly
    local_step_size: float
    name = "local-only"

    @property
    def personal_steps(self) -> PersonalSteps | None:
        """Plain descent."""
        return PersonalSteps(self.method.steps, self.method.step_size or self.local_step_size)

    @property
    def weighting(self) -> LossWeighting | None:
        """None: there is no round."""
        return None
