"""Optimisers, and local steps with record-level privacy for all participating silos in lock-step.

DP-SGD (Abadi et al. 2016) with each record's own probability of inclusion (rPDP-SGD, CCS 2024). A
silo's result depends on its own records, its number and the step, not on the silos beside it.

In optimisers, of local steps and of the server between rounds, everything is elementwise over the
parameters and written as single products, sums, quotients and roots, so that a client's step, and a
cell's round, do not depend on what they are stacked with.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar, Self, assert_never

import numpy as np
import torch
from torch import Tensor

from fedaudit.arrays import Bools, Floats, Ints
from fedaudit.federations.federation import ClientRows, Federation
from fedaudit.networks.record_gradients import ClippedGradients, RecordBatch, shares, vector_norms
from fedaudit.privacy.noise.gaussian import grid_spacing, noised, unit_gaussian
from fedaudit.privacy.records.record_use import sampled_rows, tossed_coins
from fedaudit.randomness import Source
from fedaudit.reproducible import square_root
from fedaudit.spec.models import ServerAdam, ServerAverage, ServerMomentum
from fedaudit.spec.training import Local, Training
from fedaudit.training.base.planted import NoisedSteps, PlantedRecords

# -- local steps ----------------------------------------------------------------------------------


Memory = tuple[Tensor, ...]
"""What an optimiser remembers between steps: tensors that broadcast to the parameters."""


@dataclass(frozen=True)
class Optimiser(ABC):
    """Turns a gradient into the next parameters, as a pure function."""

    step_size: float | Tensor
    """A tensor is float32 and broadcasts to the parameters."""
    moments: ClassVar[int]
    """How many tensors like the parameters are remembered."""

    def start(self, theta: Tensor, *, axis: int = -1) -> Memory:
        """The memory before the first step of parameters along an axis of `theta`."""
        return tuple(torch.zeros_like(theta) for _ in range(self.moments))

    @abstractmethod
    def step(self, theta: Tensor, gradient: Tensor, memory: Memory) -> tuple[Tensor, Memory]:
        """The parameters and the memory after one step; arguments are left as they are."""


@dataclass(frozen=True)
class Sgd(Optimiser):
    """Plain gradient descent."""

    moments = 0

    def step(self, theta: Tensor, gradient: Tensor, memory: Memory) -> tuple[Tensor, Memory]:
        return theta - gradient * self.step_size, memory


@dataclass(frozen=True)
class Momentum(Optimiser):
    """Polyak 1964, as in torch: the step size multiplies the whole direction."""

    moments = 1
    momentum: float

    def step(self, theta: Tensor, gradient: Tensor, memory: Memory) -> tuple[Tensor, Memory]:
        direction = memory[0] * self.momentum + gradient
        return theta - direction * self.step_size, (direction,)


@dataclass(frozen=True)
class Adam(Optimiser):
    """Kingma and Ba 2015, as in torch: epsilon is added to the corrected root."""

    moments = 2
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8

    def start(self, theta: Tensor, *, axis: int = -1) -> Memory:
        # The weights that the two means still give to their start: clients may have taken
        # differently many steps.
        everything = torch.ones_like(theta.narrow(axis, 0, 1), dtype=torch.float64)
        return *super().start(theta), everything, everything

    def step(self, theta: Tensor, gradient: Tensor, memory: Memory) -> tuple[Tensor, Memory]:
        # Products, because a library's power may depend on the place of a number among others.
        mean, square, first, second = memory
        first, second = first * self.beta1, second * self.beta2
        mean = mean * self.beta1 + gradient * (1 - self.beta1)
        square = square * self.beta2 + gradient * gradient * (1 - self.beta2)
        scale = (self.step_size / (1 - first)).float()
        root = square_root(square) / square_root(1 - second).float() + self.epsilon
        return theta - mean / root * scale, (mean, square, first, second)


@dataclass(frozen=True)
class RmsProp(Optimiser):
    """Tieleman and Hinton 2012, as in torch: not centred, no momentum."""

    moments = 1
    decay: float = 0.99
    epsilon: float = 1e-8

    def step(self, theta: Tensor, gradient: Tensor, memory: Memory) -> tuple[Tensor, Memory]:
        square = memory[0] * self.decay + gradient * gradient * (1 - self.decay)
        root = square_root(square) + self.epsilon
        return theta - gradient / root * self.step_size, (square,)


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


@dataclass(frozen=True, eq=False)
class PlantedGradients:
    """The planted records that the silos of a round hold."""

    planted: PlantedRecords
    silos: Ints
    """[silos], in the federation's numbers."""
    number: Ints
    """[silos, rows]: the number of the planted record in a row; -1 where there is none."""

    @classmethod
    def among(cls, planted: PlantedRecords, silos: Ints, *, rows: int) -> Self | None:
        """Those that these silos [silos] hold among their rows; None where they hold none."""
        held = np.flatnonzero(np.isin(planted.silos, silos))
        if not len(held):
            return None
        number = np.full((len(silos), rows), -1, dtype=np.int64)
        order = np.argsort(silos)
        place = order[np.searchsorted(silos, planted.silos[held], sorter=order)]
        number[place, planted.rows[held]] = held
        return cls(planted, silos, number)

    def added(self, total: Tensor, taken: Bools, *, clip: float) -> Tensor:
        """The sums [silos, n] of all others with the planted gradients that `taken` [silos, rows]
        drew, each clipped as every record's is."""
        silo, numbers = self._drawn(taken)
        gradients = torch.from_numpy(self.planted.gradients(numbers)).to(total.device)
        share = shares(vector_norms(gradients), clip=clip)
        clipped = (gradients * share[:, None]).float().double()
        return total.index_add(0, torch.from_numpy(silo).to(total.device), clipped)

    def show(self, known: Tensor, released: Tensor, taken: Bools) -> None:
        """Shows a step: sums [silos, n] of all other records, and those released."""
        holding = np.flatnonzero((self.number >= 0).any(-1))
        self.planted.see_step(
            NoisedSteps(
                silos=self.silos[holding],
                known=known.cpu().numpy()[holding],
                released=released.cpu().numpy()[holding],
                taking_part=self._drawn(taken)[1],
            )
        )

    def _drawn(self, taken: Bools) -> tuple[Ints, Ints]:
        """The silo's place and the number of each planted record that was drawn."""
        silo, row = np.nonzero(taken & (self.number >= 0))
        return silo, self.number[silo, row]


def features_and_target(
    federation: Federation, place: Ints | slice, device: torch.device
) -> tuple[Tensor, Tensor]:
    """The rows that lie at `place` [rows]: their features, float32 [rows, features], and targets,
    float32 [rows]; of classification the index of the class."""
    kept = federation.features
    match kept:
        case ClientRows():
            features = np.divide(kept.values[place], kept.divisor, dtype=np.float32)
        case np.ndarray():
            features = federation.side_by_side[place]
        case _:
            assert_never(kept)
    target = federation.target[place]
    return torch.from_numpy(features).to(device), torch.from_numpy(target).to(device)


_DRAWN_ELEMENTS = 1 << 19
"""Random numbers that are drawn ahead of the steps."""


@dataclass(frozen=True)
class SiloRecords:
    """The records of the silos that take part in a round, one silo after the other."""

    features: Tensor
    """float32 [records, ...]."""
    target: Tensor
    """float32 [records]; the class index for classification."""
    first: Ints
    """[silos]: where each silo's records begin."""
    inclusion: Floats
    """[silos, rows]: each record's chance of being in a step's batch; 0 beyond a silo's records,
    and for records that are left out."""
    noise_multipliers: Floats
    """[silos]: standard deviation of each silo's noise over the clip. 0, with an infinite clip, is
    no privacy."""
    silos: Ints
    """[silos]: the silos' numbers in the federation, which key their coins and noise."""
    planted: PlantedGradients | None = None
    """Records whose gradients an audit replaces."""

    def batches(self, taken: Bools) -> Iterator[RecordBatch]:
        """The records that take part in each step, of `budget_uses` [steps, silos, rows].
        The features of one are overwritten by the next."""
        rows, sizes = sampled_rows(taken)
        # Padding may point at any record: the first of all.
        within = np.arange(rows.shape[-1]) < sizes[..., None]
        places = torch.from_numpy(np.where(within, rows + self.first[:, None], 0))
        places = places.to(self.features.device)
        # One place in memory for all steps: a new one costs more than the copy.
        room = self.features.new_empty(places[:1].numel(), *self.features.shape[1:])
        for step, size in enumerate(sizes):
            index = places[step, :, : size.max()]
            flat = index.flatten()
            features = room[: len(flat)]
            torch.index_select(self.features, 0, flat, out=features)
            yield RecordBatch(
                features=features.view(*index.shape, *features.shape[1:]),
                target=self.target.index_select(0, flat).view(index.shape),
                sizes=size,
            )


@dataclass(frozen=True)
class RecordSteps:
    """`steps` steps: coins, clipped sum, noise, public normaliser, optimiser."""

    gradients: ClippedGradients
    optimiser: Optimiser
    steps: int
    clip: float
    normaliser: float
    """A public constant, such as the expected batch of the uniform setting: the actual batch size
    is secret."""

    def __call__(
        self, theta: Tensor, records: SiloRecords, *, source: Source, round_: int
    ) -> Tensor:
        """Each silo's parameters after the steps, float32 [silos, n]; optimisers start afresh.

        `theta` is [n] or [silos, n]; `round_` counts from 1; the seeds of `source` are one number
        or [silos]. Batch sizes are secret and not returned.
        """
        theta = theta.expand(len(records.silos), self.gradients.n)
        memory = self.optimiser.start(theta)
        noisy = records.noise_multipliers > 0  # 0 with an infinite clip is no privacy
        deviations = np.zeros((len(noisy), 1))
        deviations[noisy, 0] = records.noise_multipliers[noisy] * self.clip
        deviation = torch.from_numpy(deviations).to(theta.device)
        spacing = grid_spacing(deviation)
        planted = records.planted
        for batch, noise, taken in self._draws(records, source, round_, noisy=bool(noisy.any())):
            total = self.gradients(theta, batch, clip=self.clip).double()
            known = None
            if planted is not None:
                known, total = total, planted.added(total, taken, clip=self.clip)
            if noise is None:
                mean = total.float() / self.normaliser
            else:
                mean = noised(
                    total, noise, deviation=deviation, spacing=spacing, divisor=self.normaliser
                )
            if planted is not None and known is not None:
                planted.show(known, total, taken)
            theta, memory = self.optimiser.step(theta, mean, memory)
        return theta

    def _draws(
        self, records: SiloRecords, source: Source, round_: int, *, noisy: bool
    ) -> Iterator[tuple[RecordBatch, Tensor | None, Bools]]:
        """Each step's batch, unit noise float64 [silos, n], None unless `noisy`, and coins [silos,
        rows]; drawn some steps ahead. Planted records are in no batch."""
        silos, rows = records.inclusion.shape
        ahead = max(1, _DRAWN_ELEMENTS // max(1, silos * (rows + self.gradients.n)))
        for begin in range(0, self.steps, ahead):
            places = np.arange(begin, min(begin + ahead, self.steps))
            numbers = ((round_ - 1) * self.steps + places)[:, None]
            taken = tossed_coins(
                source, steps=numbers, silos=records.silos, inclusion=records.inclusion
            )
            noise: Iterable[Tensor | None] = [None] * len(places)
            if noisy:
                unit = unit_gaussian(
                    source, n=self.gradients.n, round_=numbers, counters=records.silos
                )
                noise = torch.from_numpy(unit).to(records.features.device)
            own = taken if records.planted is None else taken & (records.planted.number < 0)
            yield from zip(records.batches(own), noise, taken, strict=True)
