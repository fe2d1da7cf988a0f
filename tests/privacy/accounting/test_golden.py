"""Epsilons that others computed: dp-accounting, Opacus, and formulas written out."""

import importlib.util

import numpy as np
import pytest

from fedaudit.privacy.accounting.privacy_events import Gaussian, PoissonSampled, TwoStage
from fedaudit.privacy.accounting.two_stage import TWO_STAGE_ORDERS, log_moments
from tests.privacy.accounting.spending import by_orders, spent
from tests.privacy.renyi_by_hand import older_epsilon, own_divergence

ORDERS = (*range(2, 65), 80, 96, 128, 192, 256, 384, 512)
# sigma, q, steps; at delta 1e-5: the older conversion, that of Balle et al., PLD
TABLE = [
    (1.0, 0.01, 1000, 2.5383475455, 2.1077530755, 1.829),
    (1.0, 0.1, 100, 8.9276927628, 7.9729215104, 7.047),
    (2.0, 0.05, 500, 3.2054669590, 2.7748724890, 2.532),
    (4.0, 0.3, 200, 5.8954626501, 5.2699596207, 4.862),
    (2.0, 1.0, 10, 8.8376418217, 8.0878616288, 7.511),
]


def poisson(sigma, q, steps, **orders):
    return by_orders(PoissonSampled(q, Gaussian(sigma)), steps, **orders)


@pytest.mark.parametrize(("sigma", "q", "steps", "older", "tight", "pld"), TABLE)
def test_the_table(sigma, q, steps, older, tight, pld):
    assert poisson(sigma, q, steps, orders=ORDERS) == pytest.approx(tight, rel=1e-6)
    divergences = [steps * own_divergence(sigma, q, order) for order in ORDERS]
    assert older_epsilon(divergences, ORDERS, 1e-5) == pytest.approx(older, rel=1e-6)
    losses = spent(PoissonSampled(q, Gaussian(sigma)), steps, by="pld")
    assert losses == pytest.approx(pld, abs=1e-3)
    # Fractional orders can only help; the distributions stay the tightest.
    assert pld < poisson(sigma, q, steps) <= tight + 1e-12


@pytest.mark.parametrize(("rate", "epsilon"), [(0.5, 1.2503496807), (1, 1.7364577694)])
def test_two_stages(rate, epsilon):
    found = by_orders(TwoStage(rate, 0.2, 10.0, 50), 15, delta=1e-3)
    assert found == pytest.approx(epsilon, rel=1e-9)


@pytest.mark.parametrize(("sigma", "q"), [(0.5, 0.3), (1.0, 0.01), (12.373, 0.5), (10.0, 1e-6)])
def test_own_moments_are_those_of_the_library(sigma, q):
    """The library adds 1 before it takes the logarithm, and loses digits of a tiny divergence."""
    from dp_accounting.rdp.rdp_privacy_accountant import _compute_log_a_int

    for order in (2, 3, 10, 101, 994):
        own = log_moments(np.array([q]), order=order, noise_multiplier=sigma)[0]
        assert own == pytest.approx(_compute_log_a_int(q, sigma, order), rel=1e-9, abs=1e-11)


def test_with_one_step_and_every_client_two_stages_are_a_poisson_sample():
    plain = poisson(2.0, 0.05, 500, orders=TWO_STAGE_ORDERS)
    assert by_orders(TwoStage(1.0, 0.05, 2.0, 1), 500) == pytest.approx(plain, rel=1e-9)


@pytest.mark.skipif(
    importlib.util.find_spec("opacus") is None, reason="Opacus is not installed (pip: opacus)"
)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("sigma", "q", "steps"), [row[:3] for row in TABLE])
def test_opacus_says_the_same_on_equal_orders(sigma, q, steps):
    from opacus.accountants import RDPAccountant

    theirs = RDPAccountant()
    theirs.history = [(sigma, q, steps)]
    ours = poisson(sigma, q, steps, orders=tuple(RDPAccountant.DEFAULT_ALPHAS))
    assert ours == pytest.approx(theirs.get_epsilon(1e-5), rel=1e-3)
