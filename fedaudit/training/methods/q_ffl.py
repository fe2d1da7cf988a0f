"""`q-ffl`: clients with a larger loss count for more (Li et al. 2020, Algorithm 2)."""

from dataclasses import dataclass

from fedaudit.spec.methods.method_kinds import QFfl
from fedaudit.training.methods.training_method import LossWeighting, PersonalSteps, TrainingMethod


@dataclass(frozen=True)
class QFflMethod(TrainingMethod):
    """`q-ffl` in training."""

    method: QFfl
    local_step_size: float
    name = "q-ffl"

    @property
    def personal_steps(self) -> PersonalSteps | None:
        """None: there is one model for everybody."""
        return None

    @property
    def weighting(self) -> LossWeighting | None:
        """By the q-th power of the loss."""
        return LossWeighting(self.method.q, lipschitz=1 / self.local_step_size)
