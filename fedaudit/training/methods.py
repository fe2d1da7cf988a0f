"""The methods of `training.method`: what clients send, and which model they keep.

The engines know no method: they ask it whether clients weight what they send, and whether a
held-out client makes its own model.
"""

from dataclasses import dataclass
from typing import assert_never

import torch
from torch import Tensor

from fedaudit.privacy.noise.laplace import norms
from fedaudit.spec.training import Ditto, FineTuning, Hypotheses, Local, LocalOnly, QFfl, Training
from fedaudit.training.base.record_steps import Memory, Optimiser, local_optimiser

_SMALLEST_LOSS = 1e-10
"""What a loss of 0 counts as: powers below 0 are taken of it."""


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
        self, own: Tensor, common: Tensor, gradient: Tensor, memory: Memory
    ) -> tuple[Tensor, Memory]:
        """The client's parameters, of the shape of the others, and the optimiser's memory after one
        more step."""
        if self.proximal and not self.local.descends_plainly:
            gradient = gradient + self.proximal * (own - common)
        moved, memory = self.optimiser.step(own, gradient, memory)
        pull = self.pull(own, common)
        return (moved if pull is None else moved - pull), memory

    def pull(self, own: Tensor, common: Tensor) -> Tensor | None:
        """What a plain step takes off for the distance from the common model, beside the gradient,
        which has it otherwise; None without a pull."""
        if not self.proximal or not self.local.descends_plainly:
            return None
        return self.step_size * self.proximal * (own - common)


@dataclass(frozen=True)
class LossWeighting:
    """What clients send and the server makes of it in q-FedAvg (Li et al. 2020, Algorithm 2).

    The q-th power of a loss passes what floating point can hold, so an upload has the slope
    L (w - w_k) [n], and behind it the logarithm of the client's loss F_k at w: [n + 1]. From these
    the server makes Delta_k and h_k, all divided by one number, on which the next model does not
    depend.
    """

    q: float
    lipschitz: float
    """L, an estimate of how fast the gradient changes: one over the local step size."""

    def weigh(self, start: Tensor, updated: Tensor, losses: Tensor) -> Tensor:
        """Uploads float32 [cells, clients, n + 1] of updates [cells, clients, n] of `start`.

        `losses` [cells, clients]: each client's loss at `start`.
        """
        slope = self.lipschitz * (start - updated)
        logarithm = losses.double().clamp_min(_SMALLEST_LOSS).log()
        return torch.cat([slope.double(), logarithm[..., None]], dim=-1).float()

    def weighted(self, uploads: Tensor, present: Tensor) -> Tensor:
        """Delta_k, and behind it h_k, of uploads [cells, clients, n + 1]: float64 of that shape.

        Both are divided by the largest weight of those who are `present`, bool [cells, clients].
        """
        slope, logarithm = uploads[..., :-1].double(), uploads[..., -1].double()
        largest = torch.where(present, self.q * logarithm, -torch.inf).amax(-1, keepdim=True)
        weight = (self.q * logarithm - largest).exp()
        steepness = self.q * (-logarithm).exp() * norms(slope).square()
        divisor = weight * (steepness + self.lipschitz)
        return torch.cat([slope * weight[..., None], divisor[..., None]], dim=-1)

    def step(self, theta: Tensor, sums: Tensor) -> Tensor:
        """The next model [cells, 1, n] of theta [cells, 1, n] and the sums of uploads, float64
        [cells, 1, n + 1]; the same one where nothing was sent."""
        divisor = sums[..., -1:]
        moved = theta.double() - sums[..., :-1] / torch.where(divisor > 0, divisor, 1.0)
        return torch.where(divisor > 0, moved.to(theta.dtype), theta)


@dataclass(frozen=True)
class TrainingMethod:
    """What the engines ask of a method, with the parameters of one cell."""

    personal_steps: PersonalSteps | None = None
    """How a held-out client makes the model that it is scored by; None where it is scored by the
    hypothesis that it chooses."""
    weighting: LossWeighting | None = None
    """How clients weight what they send; None where they send their updates."""


def training_method(training: Training) -> TrainingMethod:
    """The method of a spec: the only place that names them all.

    With `ditto` (Li et al. 2021, equation 1) the common model is that of FedAvg and does not depend
    on personal ones, so personal models of training clients, which are neither sent nor scored, are
    not computed. A held-out client was in no round: it solves its problem beside the common model
    at hand, and from there. Algorithm 1 of the paper carries on from the personal model that a
    client has from earlier rounds.
    """
    method, local = training.method, training.local
    match method:
        case Hypotheses():
            return TrainingMethod()
        case FineTuning() | LocalOnly():
            size = method.step_size or local.step_size
            return TrainingMethod(PersonalSteps(method.steps, size, local))
        case Ditto():
            size = method.step_size or local.step_size
            return TrainingMethod(PersonalSteps(method.steps, size, local, method.proximal))
        case QFfl():
            return TrainingMethod(weighting=LossWeighting(method.q, lipschitz=1 / local.step_size))
        case _:
            assert_never(method)
