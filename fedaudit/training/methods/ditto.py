"""`ditto`: each client keeps a model of its own near the common one (Li et al. 2021, equation 1).

The common model is that of FedAvg and does not depend on personal ones. So those of training
clients, which leave nobody and by which nobody is scored, are not computed. A held-out client was
in no round: it solves its problem beside the common model at hand, and from there. Algorithm 1 of
the paper carries on from the personal model that a client has from earlier rounds.
"""

from dataclasses import dataclass

from fedaudit.spec.methods.method_kinds import Ditto
from fedaudit.training.methods.training_method import LossWeighting, PersonalSteps, TrainingMethod


@dataclass(frozen=True)
class DittoMethod(TrainingMethod):
    """`ditto` in training."""

    method: Ditto
    local_step_size: float
    name = "ditto"

    @property
    def personal_steps(self) -> PersonalSteps | None:
        """Descent of the loss plus lambda/2 times the squared distance from the common model."""
        return PersonalSteps(
            self.method.steps,
            self.method.step_size or self.local_step_size,
            proximal=self.method.proximal,
        )

    @property
    def weighting(self) -> LossWeighting | None:
        """None: clients send their updates."""
        return None
