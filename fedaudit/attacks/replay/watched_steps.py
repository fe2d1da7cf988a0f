"""Local steps on records, looked at: coins, clipped sums, noise and what the optimiser is given."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from fedaudit.attacks.replay.passed_through import PassedThrough, StepsPassed
from fedaudit.networks.losses import Loss
from fedaudit.networks.record_gradients import ClippedGradients, RecordBatch, vector_norms
from fedaudit.privacy.noise.gaussian import wide_normals
from fedaudit.privacy.records.record_plans import RecordPlan
from fedaudit.randomness import Purpose, Source, WideWords, Words
from fedaudit.training.base.cell import Cell
from fedaudit.training.base.record_steps import Optimiser, OptimiserState, RecordSteps, SiloRecords
from fedaudit.training.mechanisms.base import RecordMechanism, RecordProtection

_SINGLE_STEPS, _SINGLE_ROWS = 2, 64
"""In so many steps of a round, so many records of each batch are also looked at one by one."""


@dataclass(frozen=True)
class WatchedRecords(RecordMechanism):
    """A mechanism inside local steps that is looked at."""

    inner: RecordMechanism
    passed: PassedThrough
    follow: PassedThrough | None
    """A run whose clipped sums are taken in place of one's own, so that both take the same
    steps."""
    name = "watched"

    def protection(
        self, cell: Cell, loss: Loss, plan: RecordPlan, *, clients: int
    ) -> RecordProtection:
        """See `RecordMechanism`."""
        found = self.inner.protection(cell, loss, plan, clients=clients)
        steps = found.steps
        watched = _Steps(
            steps.gradients,
            steps.optimiser,
            steps.steps,
            steps.clip,
            steps.normaliser,
            inner=steps,
            passed=self.passed,
            follow=self.follow,
        )
        return replace(found, steps=watched)


@dataclass(frozen=True)
class _Steps(RecordSteps):
    inner: RecordSteps
    passed: PassedThrough
    follow: PassedThrough | None

    def __call__(
        self,
        theta: Tensor,
        records: SiloRecords,
        *,
        source: Source,
        round_: int,
        state: OptimiserState | None = None,
    ) -> tuple[Tensor, OptimiserState]:
        self.passed.source = source
        kept = self.passed.steps[self.passed.round]
        own = StepsPassed(
            silos=records.silos.copy(),
            inclusion=records.inclusion.copy(),
            clip=self.inner.clip,
            normaliser=self.inner.normaliser,
        )
        kept.append(own)
        other = None
        if self.follow is not None:
            other = self.follow.steps[self.passed.round][len(kept) - 1]
        watched = replace(
            self.inner,
            gradients=_Gradients(self.inner.gradients, own, other),
            optimiser=_Optimiser(self.inner.optimiser, own),
        )
        heard = _HeardSource(source, own, n=self.inner.gradients.n)
        seen = _SeenRecords(**{**vars(records), "own": own})
        return watched(theta, seen, source=heard, round_=round_, state=state)


@dataclass(frozen=True)
class _SeenRecords(SiloRecords):
    own: StepsPassed = field(kw_only=True)

    def batches(self, taken: NDArray[np.bool_]) -> Iterator[RecordBatch]:
        self.own.taken += list(taken)
        return super().batches(taken)


class _Gradients:
    """See `ClippedGradients`."""

    def __init__(
        self, inner: ClippedGradients, own: StepsPassed, other: StepsPassed | None
    ) -> None:
        self._inner, self._own, self._other = inner, own, other
        self.n = inner.n

    def __call__(self, theta: Tensor, batch: RecordBatch, *, clip: float) -> Tensor:
        total = self._inner(theta, batch, clip=clip)
        own = self._own
        if len(own.sums) < _SINGLE_STEPS:
            own.single_norms += self._single_norms(theta, batch, clip)
        own.sums.append(total.clone())
        own.clips.append(clip)
        return total if self._other is None else self._other.sums[len(own.sums) - 1].clone()

    def _single_norms(
        self, theta: Tensor, batch: RecordBatch, clip: float
    ) -> Iterator[NDArray[np.float64]]:
        for row in range(min(batch.target.shape[1], _SINGLE_ROWS)):
            alone = RecordBatch(
                batch.features[:, row : row + 1],
                batch.target[:, row : row + 1],
                (batch.sizes > row).astype(np.int64),
            )
            yield vector_norms(self._inner(theta, alone, clip=clip)).numpy()


class _Optimiser:
    """See `Optimiser`."""

    def __init__(self, inner: Optimiser, own: StepsPassed) -> None:
        self._inner, self._own = inner, own

    def start(self, theta: Tensor) -> OptimiserState:
        return self._inner.start(theta)

    def step(
        self, theta: Tensor, gradient: Tensor, state: OptimiserState
    ) -> tuple[Tensor, OptimiserState]:
        self._own.gradients.append(torch.as_tensor(gradient).clone())
        return self._inner.step(theta, gradient, state)


class _HeardSource:
    """See `Source`: keeps the normal numbers that are made of what it is asked for."""

    def __init__(self, inner: Source, own: StepsPassed, *, n: int) -> None:
        self._inner, self._own, self._n = inner, own, n

    def words(
        self, *, purpose: Purpose, round_: ArrayLike, counters: ArrayLike, count: int
    ) -> Words:
        return self._inner.words(purpose=purpose, round_=round_, counters=counters, count=count)

    def wide_words(
        self, *, purpose: Purpose, round_: ArrayLike, counters: ArrayLike, count: int
    ) -> WideWords:
        found = self._inner.wide_words(
            purpose=purpose, round_=round_, counters=counters, count=count
        )
        if purpose is Purpose.GAUSSIAN:
            self._own.unit_noise += list(wide_normals(found)[..., : self._n])
        return found
