"""The methods of `training.method`: the engines ask whether a held-out client makes a model by
itself."""

from dataclasses import dataclass
from typing import assert_never

from torch import Tensor

from fedaudit.spec.training import Ditto, FineTuning, Hypotheses, Local, LocalOnly, QFfl, Training
from fedaudit.training.base.record_steps import Optimiser, OptimiserState, local_optimiser


@dataclass(frozen=True)
class PersonalSteps:
    """How a client makes its own model, which it keeps: local steps from the common one."""

    steps: int
    step_size: float
    local: Local
    proximal: float = 0.0
    """lambda: how strongly the common model pulls; 0 for none."""

    @property
    def optimiser(self) -> Optimiser:
        """The optimiser of local steps, with the step size of these."""
        return local_optimiser(self.local, self.step_size)

    def after(
        self, own: Tensor, common: Tensor, gradient: Tensor, state: OptimiserState
    ) -> tuple[Tensor, OptimiserState]:
        """The client's parameters, of the shape of the others, and the optimiser's state after one
        more step."""
        if self.proximal and not self.local.descends_plainly:
            gradient = gradient + self.proximal * (own - common)
        moved, state = self.optimiser.step(own, gradient, state)
        pull = self.pull(own, common)
        return (moved if pull is None else moved - pull), state

    def pull(self, own: Tensor, common: Tensor) -> Tensor | None:
        """What a plain step takes off for the distance from the common model, beside the gradient,
        which has it otherwise; None without a pull."""
        if not self.proximal or not self.local.descends_plainly:
            return None
        return self.step_size * self.proximal * (own - common)


def personal_steps(training: Training) -> PersonalSteps | None:
    """How a held-out client makes the model that it is scored by; None where it is scored by the
    hypothesis that it chooses.

    With `ditto` (Li et al. 2021, equation 1) the common model is that of FedAvg and does not depend
    on personal ones, so personal models of training clients, which are neither sent nor scored, are
    not computed. A held-out client was in no round: it solves its problem beside the common model
    at hand, and from there. Algorithm 1 of the paper carries on from the personal model that a
    client has from earlier rounds.
    """
    method, local = training.method, training.local
    match method:
        case Hypotheses() | QFfl():
            return None
        case FineTuning() | LocalOnly():
            return PersonalSteps(method.steps, method.step_size or local.step_size, local)
        case Ditto():
            size = method.step_size or local.step_size
            return PersonalSteps(method.steps, size, local, method.proximal)
        case _:
            assert_never(method)
