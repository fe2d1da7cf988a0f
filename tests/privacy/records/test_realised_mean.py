"""Dividing by the number of clients that were drawn, in one dimension and without any bound.

A round of `record-personalised` gives the mean of the models of those whose coins fell. Here every
client takes one step, the others' models lie around one place, and the divergence of the round with
a record and without it is integrated, to be compared with the accountant's.
"""

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import binom, norm

from fedaudit.privacy.accounting.accountant import event_curve
from fedaudit.privacy.accounting.privacy_events import Gaussian, PoissonSampled
from fedaudit.privacy.accounting.two_stage import round_divergence

PLACES = np.linspace(-25, 35, 30_001)
STEP = PLACES[1] - PLACES[0]


def log_density(own, *, others, rate, sigma, place):
    """Log-density of the round's mean where somebody was drawn.

    `own`: how far the record moves its client; `others`: clients beside it; `place`: theirs.
    """
    parts = []
    for drawn in range(others + 1):
        chance = binom.logpmf(drawn, others, rate)
        mean, spread = (drawn * place + own) / (drawn + 1), sigma / np.sqrt(drawn + 1)
        parts.append(chance + np.log(rate) + norm.logpdf(PLACES, mean, spread))
        if drawn and rate < 1:
            spread = sigma / np.sqrt(drawn)
            parts.append(chance + np.log1p(-rate) + norm.logpdf(PLACES, place, spread))
    return logsumexp(parts, axis=0)


def divergence(order, *, first, second, others, rate, sigma, place):
    """The Renyi divergence of the round; `first` and `second`: how far the own client moves."""
    shared = {"others": others, "rate": rate, "sigma": sigma, "place": place}
    p, q = log_density(first, **shared), log_density(second, **shared)
    mass = np.exp(order * p + (1 - order) * q).sum() * STEP
    nobody = (1 - rate) ** (others + 1)  # the model stays where it is, with the record or without
    return np.log(mass + nobody) / (order - 1)


def claimed(order, *, rate, sigma):
    """The accountant's divergence of a round of one step, for a record in every batch."""
    return round_divergence(
        np.array([1.0]), order=order, noise_multiplier=sigma, steps=1, client_rate=rate
    )[0]


@pytest.mark.parametrize("place", [0.0, 2.0, 12.0])
@pytest.mark.parametrize("others", [0, 1, 4])
@pytest.mark.parametrize("rate", [0.1, 0.5, 1.0])
@pytest.mark.parametrize("order", [2, 5])
def test_the_two_stage_bound_holds_for_the_mean_over_those_who_came(order, rate, others, place):
    sigma = 1.5
    setting = {"others": others, "rate": rate, "sigma": sigma, "place": place}
    bound = claimed(order, rate=rate, sigma=sigma)
    for first, second in ((1.0, 0.0), (0.0, 1.0)):
        found = divergence(order, first=first, second=second, **setting)
        assert found <= bound * (1 + 1e-9)


def test_it_is_met_by_a_client_that_is_alone_where_a_plain_sample_would_promise_less():
    """Where nobody was drawn the model does not move, which no noise hides."""
    order, rate, sigma = 5, 0.1, 1.5
    setting = {"others": 0, "rate": rate, "sigma": sigma, "place": 0.0}
    found = divergence(order, first=1.0, second=0.0, **setting)
    assert found == pytest.approx(claimed(order, rate=rate, sigma=sigma), rel=1e-9)
    [plain] = event_curve(
        PoissonSampled(rate, Gaussian(sigma)), (float(order),), "add-or-remove-one"
    )
    assert plain < found / 2
