"""What goes wrong in private local steps on records."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from torch import Tensor

from fedaudit.networks.record_gradients import SmallDenseClippedGradients, vector_norms
from fedaudit.privacy.records import record_plans
from fedaudit.training.base import record_steps
from fedaudit.training.base.record_steps import RecordSteps
from fedaudit.training.mechanisms import registry
from fedaudit.training.personalised import PersonalisedRound
from tests.attacks.zoo.cells import of_baseline, records
from tests.attacks.zoo.violations import violation


@violation(records, stage="sum", check="distance of neighbouring sums")
def clip_the_mean_gradient(patch: pytest.MonkeyPatch) -> None:
    """Gradients of records are averaged before they are clipped."""
    real = SmallDenseClippedGradients.__call__

    def call(self: Any, theta: Tensor, batch: Any, *, clip: float) -> Tensor:
        sizes = np.maximum(batch.sizes, 1).astype(np.float64)
        total = real(self, theta, batch, clip=float("inf"))
        share = (clip * (1 - 2.0**-20) * sizes / vector_norms(total).numpy().clip(1e-300)).clip(
            max=1.0
        )
        return total * theta.new_tensor(share).double()[:, None]

    patch.setattr(SmallDenseClippedGradients, "__call__", call)


@violation(records, stage="clip", check="norm of a record's gradient")
def clip_no_record(patch: pytest.MonkeyPatch) -> None:
    """Gradients of records are clipped to twice the clip."""
    real = SmallDenseClippedGradients.__call__

    def call(self: Any, theta: Tensor, batch: Any, *, clip: float) -> Tensor:
        return real(self, theta, batch, clip=2 * clip)

    patch.setattr(SmallDenseClippedGradients, "__call__", call)


@violation(records, stage="sampling", check="chance of a record")
def exchange_rates(patch: pytest.MonkeyPatch) -> None:
    """A record is drawn at the rate of another."""
    real = PersonalisedRound._inclusion

    def inclusion(self: Any, *given: Any, **named: Any) -> NDArray[np.float64]:
        found: NDArray[np.float64] = real(self, *given, **named)
        first = found[:, 0].copy()
        found[:, 0], found[:, 1] = found[:, 1], first
        return found

    patch.setattr(PersonalisedRound, "_inclusion", inclusion)


@violation(records, stage="sampling", check="rates of the other records")
def look_at_everybody(patch: pytest.MonkeyPatch) -> None:
    """A record's rate follows from how many records there are."""
    real = record_plans.exact_rates

    def rates(budgets: NDArray[np.float64], run: Any) -> Any:
        found = real(budgets, run)
        share = 1 - 1 / len(budgets)
        return replace(found, rates=share * found.rates)

    patch.setattr(record_plans, "exact_rates", rates)


@violation(of_baseline("filter"), stage="sampling", check="chance of a record")
def keep_records_that_have_left(patch: pytest.MonkeyPatch) -> None:
    """Records stay once their budget is spent."""
    real = PersonalisedRound._inclusion

    def inclusion(self: Any, places: Any, paid: int, *, rows: int) -> Any:
        return real(self, places, 0, rows=rows)

    patch.setattr(PersonalisedRound, "_inclusion", inclusion)


@violation(lambda: records(rounds=20), stage="sampling", check="batches in turn")
def toss_for_a_round(patch: pytest.MonkeyPatch) -> None:
    """Records toss one coin for all steps of a round."""
    real = record_steps.tossed_coins

    def tossed(source: Any, *, steps: Any, **given: Any) -> Any:
        return real(source, steps=np.broadcast_to(steps[:1], steps.shape), **given)

    patch.setattr(record_steps, "tossed_coins", tossed)


@violation(lambda: records(rounds=20), stage="sampling", check="coins of records at")
def draw_records_more_often(patch: pytest.MonkeyPatch) -> None:
    """Records enter steps half as often again as they are charged for."""
    real = record_steps.tossed_coins

    def tossed(source: Any, *, inclusion: Any, **given: Any) -> Any:
        return real(source, inclusion=np.minimum(1.0, 1.5 * inclusion), **given)

    patch.setattr(record_steps, "tossed_coins", tossed)


@violation(records, stage="noise", check="noise added")
def halve_the_noise_of_steps(patch: pytest.MonkeyPatch) -> None:
    """Steps have half the noise that their records are charged for."""
    real = registry._noise_multipliers

    def halved(*given: Any) -> NDArray[np.float64]:
        return real(*given) / 2

    patch.setattr(registry, "_noise_multipliers", halved)
    patch.setattr(registry, "_normaliser", lambda local, noise: float(local.batch_size))


@violation(records, stage="noise", check="noise used once")
def share_noise_between_steps(patch: pytest.MonkeyPatch) -> None:
    """Noise is drawn once for all steps of a round."""
    real = RecordSteps._noise

    def noise(self: Any, source: Any, numbers: NDArray[np.int64], given: Any) -> Any:
        return real(self, source, np.broadcast_to(numbers[:1], numbers.shape), given)

    patch.setattr(RecordSteps, "_noise", noise)


@violation(records, stage="noise", check="noise added")
def leave_empty_batches_bare(patch: pytest.MonkeyPatch) -> None:
    """A step whose batch is empty gets no noise."""
    real = RecordSteps._draws

    def draws(self: Any, *given: Any) -> Any:
        for batch, noise, taken in real(self, *given):
            noise[batch.sizes == 0] = 0.0
            yield batch, noise, taken

    patch.setattr(RecordSteps, "_draws", draws)


@violation(records, stage="release", check="divisor of gradients")
def divide_by_expected_batches(patch: pytest.MonkeyPatch) -> None:
    """Sums of gradients are divided by a number that follows from the records' budgets."""
    real = registry.RecordPersonalisedTraining.protection

    def protection(self: Any, cell: Any, loss: Any, plan: Any, *, clients: int) -> Any:
        found = real(self, cell, loss, plan, clients=clients)
        return replace(found, steps=replace(found.steps, normaliser=float(plan.rates.sum())))

    patch.setattr(registry.RecordPersonalisedTraining, "protection", protection)
