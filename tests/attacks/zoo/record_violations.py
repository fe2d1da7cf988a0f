"""What goes wrong in private local steps on records."""

from dataclasses import replace

import numpy as np
import pytest

from fedaudit.networks.record_gradients import SmallDenseClippedGradients, vector_norms
from fedaudit.privacy.records import record_use
from fedaudit.training import personalised
from fedaudit.training.base import record_steps
from fedaudit.training.base.record_steps import RecordSteps
from fedaudit.training.mechanisms import registry
from fedaudit.training.personalised import RecordByRecord
from tests.attacks.zoo.cells import of_baseline, records
from tests.attacks.zoo.violations import violation


@violation(
    records, "sum", "distance of neighbouring sums", at=(SmallDenseClippedGradients, "__call__")
)
def clip_the_mean_gradient(real, self, theta, batch, *, clip):
    """Gradients of records are averaged before they are clipped."""
    sizes = np.maximum(batch.sizes, 1).astype(np.float64)
    total = real(self, theta, batch, clip=float("inf"))
    share = (clip * (1 - 2.0**-20) * sizes / vector_norms(total).numpy().clip(1e-300)).clip(max=1.0)
    return total * theta.new_tensor(share).double()[:, None]


@violation(
    records, "clip", "norm of a record's gradient", at=(SmallDenseClippedGradients, "__call__")
)
def clip_no_record(real, self, theta, batch, *, clip):
    """Gradients of records are clipped to twice the clip."""
    return real(self, theta, batch, clip=2 * clip)


@violation(records, "sampling", "chance of a record", at=(RecordByRecord, "_inclusion"))
def exchange_rates(real, self, *given, **named):
    """A record is drawn at the rate of another."""
    found = real(self, *given, **named)
    first = found[:, 0].copy()
    found[:, 0], found[:, 1] = found[:, 1], first
    return found


@violation(records, "sampling", "rates of the other records", at=(record_use, "exact_rates"))
def look_at_everybody(real, budgets, run):
    """A record's rate follows from how many records there are."""
    return (1 - 1 / len(budgets)) * real(budgets, run)


@violation(
    of_baseline("filter"), "sampling", "chance of a record", at=(RecordByRecord, "_inclusion")
)
def keep_records_that_have_left(real, self, places, paid, *, rows):
    """Records stay once their budget is spent."""
    return real(self, places, 0, rows=rows)


@violation(
    lambda: records(rounds=20), "sampling", "coins of records at", at=(record_steps, "tossed_coins")
)
def draw_records_more_often(real, source, *, inclusion, **given):
    """Records enter steps half as often again as they are charged for."""
    return real(source, inclusion=np.minimum(1.0, 1.5 * inclusion), **given)


@violation(records, "noise", "noise added")
def halve_the_noise_of_steps(patch: pytest.MonkeyPatch) -> None:
    """Steps have half the noise that their records are charged for."""
    real = registry._noise_multipliers

    def halved(*given):
        return real(*given) / 2

    patch.setattr(registry, "_noise_multipliers", halved)
    patch.setattr(registry, "_normaliser", lambda local, noise: float(local.batch_size))


@violation(records, "noise", "noise used once", at=(record_steps, "unit_gaussian"))
def share_noise_between_steps(real, source, *, round_, **given):
    """Noise is drawn once for all steps of a round."""
    return real(source, round_=np.broadcast_to(round_[:1], round_.shape), **given)


@violation(records, "noise", "noise added", at=(RecordSteps, "_draws"))
def leave_empty_batches_bare(real, self, *given, **named):
    """A step whose batch is empty gets no noise."""
    for batch, noise, taken in real(self, *given, **named):
        noise[batch.sizes == 0] = 0.0
        yield batch, noise, taken


@violation(records, "release", "divisor of gradients", at=(personalised, "build_record_protection"))
def divide_by_expected_batches(real, cell, loss, plan, *, clients):
    """Sums of gradients are divided by a number that follows from the records' budgets."""
    found = real(cell, loss, plan, clients=clients)
    return replace(found, steps=replace(found.steps, normaliser=float(plan.rates.sum())))
