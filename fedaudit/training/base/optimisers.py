"""Optimisers as pure functions of flat parameters; what they remember is passed in and out.

Everything is elementwise over the parameters and written as single products, sums, quotients and
roots, so that a silo's step does not depend on what it is stacked with.
"""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor


@dataclass(frozen=True)
class OptimiserState:
    """What an optimiser remembers between steps."""

    steps: Tensor
    """float64 [..., 1]: steps taken so far; they may differ where silos took part unequally."""
    moments: tuple[Tensor, ...]
    """Tensors shaped like the parameters."""


class Optimiser(Protocol):
    """Turns a gradient into the next parameters."""

    def start(self, theta: Tensor) -> OptimiserState:
        """The state before the first step of parameters [..., n]."""

    def step(
        self, theta: Tensor, gradient: Tensor, state: OptimiserState
    ) -> tuple[Tensor, OptimiserState]:
        """The parameters and the state after one step; arguments are left as they are."""


def _start(theta: Tensor, *, moments: int) -> OptimiserState:
    steps = torch.zeros(*theta.shape[:-1], 1, dtype=torch.float64, device=theta.device)
    return OptimiserState(steps, tuple(torch.zeros_like(theta) for _ in range(moments)))


@dataclass(frozen=True)
class Sgd:
    """Plain gradient descent."""

    step_size: float

    def start(self, theta: Tensor) -> OptimiserState:
        """See `Optimiser`."""
        return _start(theta, moments=0)

    def step(
        self, theta: Tensor, gradient: Tensor, state: OptimiserState
    ) -> tuple[Tensor, OptimiserState]:
        """See `Optimiser`."""
        return theta - gradient * self.step_size, OptimiserState(state.steps + 1, ())


@dataclass(frozen=True)
class Adam:
    """Kingma and Ba 2015, as in torch: epsilon is added to the corrected root."""

    step_size: float
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8

    def start(self, theta: Tensor) -> OptimiserState:
        """See `Optimiser`."""
        return _start(theta, moments=2)

    def step(
        self, theta: Tensor, gradient: Tensor, state: OptimiserState
    ) -> tuple[Tensor, OptimiserState]:
        """See `Optimiser`."""
        steps = state.steps + 1
        mean = state.moments[0] * self.beta1 + gradient * (1 - self.beta1)
        square = state.moments[1] * self.beta2 + gradient * gradient * (1 - self.beta2)
        scale = (self.step_size / (1 - self.beta1**steps)).float()
        root = square.sqrt() / (1 - self.beta2**steps).sqrt().float() + self.epsilon
        return theta - mean / root * scale, OptimiserState(steps, (mean, square))


@dataclass(frozen=True)
class RmsProp:
    """Tieleman and Hinton 2012, as in torch: not centred, no momentum."""

    step_size: float
    decay: float = 0.99
    epsilon: float = 1e-8

    def start(self, theta: Tensor) -> OptimiserState:
        """See `Optimiser`."""
        return _start(theta, moments=1)

    def step(
        self, theta: Tensor, gradient: Tensor, state: OptimiserState
    ) -> tuple[Tensor, OptimiserState]:
        """See `Optimiser`."""
        square = state.moments[0] * self.decay + gradient * gradient * (1 - self.decay)
        root = square.sqrt() + self.epsilon
        return theta - gradient / root * self.step_size, OptimiserState(state.steps + 1, (square,))
