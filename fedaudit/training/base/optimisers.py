"""Optimisers of local steps, and of the server between rounds.

Everything is elementwise over the parameters and written as single products, sums, quotients and
roots, so that a client's step, and a cell's round, do not depend on what they are stacked with.
"""

from dataclasses import dataclass, replace
from typing import ClassVar, Protocol, assert_never

import torch
from torch import Tensor

from fedaudit.reproducible import square_root
from fedaudit.spec.optimisers import ServerAdam, ServerAverage, ServerMomentum
from fedaudit.spec.training import Local, Training

# -- local steps ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class OptimiserState:
    """What an optimiser remembers between steps."""

    moments: tuple[Tensor, ...] = ()
    """Tensors shaped like the parameters."""
    left: tuple[Tensor, ...] = ()
    """float64, shaped like the parameters but for their own axis, which has length 1: the weight
    that a mean still gives to its start. Clients may have taken differently many steps."""

    def where(self, taken: Tensor, before: "OptimiserState") -> "OptimiserState":
        """This state where a step was `taken`, a bool that broadcasts, otherwise the one before."""
        moments, left = (
            tuple(torch.where(taken, new, old) for new, old in zip(*pair, strict=True))
            for pair in ((self.moments, before.moments), (self.left, before.left))
        )
        return OptimiserState(moments, left)


class Optimiser(Protocol):
    """Turns a gradient into the next parameters, as a pure function."""

    def start(self, theta: Tensor, *, axis: int = -1) -> OptimiserState:
        """The state before the first step of parameters along an axis of `theta`."""

    def step(
        self, theta: Tensor, gradient: Tensor, state: OptimiserState
    ) -> tuple[Tensor, OptimiserState]:
        """The parameters and the state after one step; arguments are left as they are."""


@dataclass(frozen=True)
class _WithMoments:
    step_size: float | Tensor
    """A tensor is float32 and broadcasts to the parameters."""
    moments: ClassVar[int]
    """How many tensors like the parameters are remembered."""

    def start(self, theta: Tensor, *, axis: int = -1) -> OptimiserState:
        return OptimiserState(tuple(torch.zeros_like(theta) for _ in range(self.moments)))


@dataclass(frozen=True)
class Sgd(_WithMoments):
    """Plain gradient descent."""

    moments = 0

    def step(
        self, theta: Tensor, gradient: Tensor, state: OptimiserState
    ) -> tuple[Tensor, OptimiserState]:
        return theta - gradient * self.step_size, state


@dataclass(frozen=True)
class Momentum(_WithMoments):
    """Polyak 1964, as in torch: the step size multiplies the whole direction."""

    moments = 1
    momentum: float

    def step(
        self, theta: Tensor, gradient: Tensor, state: OptimiserState
    ) -> tuple[Tensor, OptimiserState]:
        direction = state.moments[0] * self.momentum + gradient
        return theta - direction * self.step_size, OptimiserState((direction,))


@dataclass(frozen=True)
class Adam(_WithMoments):
    """Kingma and Ba 2015, as in torch: epsilon is added to the corrected root."""

    moments = 2
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8

    def start(self, theta: Tensor, *, axis: int = -1) -> OptimiserState:
        everything = torch.ones_like(theta.narrow(axis, 0, 1), dtype=torch.float64)
        return replace(super().start(theta), left=(everything, everything))

    def step(
        self, theta: Tensor, gradient: Tensor, state: OptimiserState
    ) -> tuple[Tensor, OptimiserState]:
        # Products, because a library's power may depend on where a number lies among others.
        first, second = state.left[0] * self.beta1, state.left[1] * self.beta2
        mean = state.moments[0] * self.beta1 + gradient * (1 - self.beta1)
        square = state.moments[1] * self.beta2 + gradient * gradient * (1 - self.beta2)
        scale = (self.step_size / (1 - first)).float()
        root = square_root(square) / square_root(1 - second).float() + self.epsilon
        return theta - mean / root * scale, OptimiserState((mean, square), (first, second))


@dataclass(frozen=True)
class RmsProp(_WithMoments):
    """Tieleman and Hinton 2012, as in torch: not centred, no momentum."""

    moments = 1
    decay: float = 0.99
    epsilon: float = 1e-8

    def step(
        self, theta: Tensor, gradient: Tensor, state: OptimiserState
    ) -> tuple[Tensor, OptimiserState]:
        square = state.moments[0] * self.decay + gradient * gradient * (1 - self.decay)
        root = square_root(square) + self.epsilon
        return theta - gradient / root * self.step_size, OptimiserState((square,))


def local_optimiser(local: Local, step_size: float | Tensor) -> Optimiser:
    """The optimiser of local steps, with this step size in place of the spec's."""
    match local.optimiser:
        case "sgd":
            return Momentum(step_size, local.momentum) if local.momentum else Sgd(step_size)
        case "adam":
            return Adam(step_size)
        case "rmsprop":
            return RmsProp(step_size)
        case _:
            assert_never(local.optimiser)


# -- the server -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class ServerMoves:
    """How the server moves hypotheses by what was released of a round.

    The pseudo-gradient of a hypothesis is the average of a round less the hypothesis (Reddi et al.
    2021). Only what was released is looked at, so a guarantee holds as it does for plain averages.
    """

    rule: ServerMomentum | ServerAdam

    def start(self, hypotheses: Tensor) -> Tensor:
        """What the server remembers before the first round: [..., moments, k, n] float32 of
        hypotheses [..., k, n]."""
        nothing = torch.zeros_like(hypotheses)
        match self.rule:
            case ServerMomentum():
                return nothing[..., None, :, :]
            case ServerAdam():
                # The least that the paper's Algorithm 2 allows.
                return torch.stack([nothing, nothing + self.rule.tau**2], dim=-3)
            case _:
                assert_never(self.rule)

    def __call__(
        self,
        before: Tensor,
        averages: Tensor,
        moments: Tensor,
        *,
        moved: Tensor,
        relocated: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """The next hypotheses and moments, of those `before` [..., k, n] and their averages.

        `moved`, `relocated` bool [..., k]: a hypothesis that is not moved keeps both; one that is
        relocated takes the average, and moments as at the start.
        """
        direction = averages - before
        match self.rule:
            case ServerMomentum():
                kept = moments[..., 0, :, :] * self.rule.momentum + direction
                hypotheses = before + kept * self.rule.step_size
                after = kept[..., None, :, :]
            case ServerAdam():
                beta1, beta2 = self.rule.beta1, self.rule.beta2
                mean = moments[..., 0, :, :] * beta1 + direction * (1 - beta1)
                square = moments[..., 1, :, :] * beta2 + direction * direction * (1 - beta2)
                hypotheses = before + mean / (square_root(square) + self.rule.tau) * (
                    self.rule.step_size
                )
                after = torch.stack([mean, square], dim=-3)
            case _:
                assert_never(self.rule)
        if relocated is not None:
            hypotheses = torch.where(relocated[..., None], averages, hypotheses)
            after = torch.where(relocated[..., None, :, None], self.start(before), after)
        return (
            torch.where(moved[..., None], hypotheses, before),
            torch.where(moved[..., None, :, None], after, moments),
        )


def server_moves(training: Training) -> ServerMoves | None:
    """How the server of a spec moves hypotheses; None where it takes averages as they are."""
    match training.server:
        case ServerAverage():
            return None
        case ServerMomentum() | ServerAdam():
            return ServerMoves(training.server)
        case _:
            assert_never(training.server)
