"""What (epsilon, delta) allows a test of one dataset against another."""

import math

import numpy as np
import pytest
from scipy.stats import norm

from fedaudit.attacks.membership.member_rates import Claim, claim_of
from fedaudit.privacy.planning.plan import ObserverEpsilon
from tests.attacks.attacked_runs import attacked_run
from tests.training.personalised import records_spec
from tests.training.specs import cell


def claim(epsilon: float, delta: float, *, steps: int = 1) -> Claim:
    claimed = ObserverEpsilon(
        observer="final_model", delta=delta, adjacency="replace-one", value=epsilon
    )
    return Claim(claimed=claimed, unit="client", steps=steps)


def test_no_test_of_the_gaussian_mechanism_passes_it() -> None:
    # Noise of deviation 1 / mu at sensitivity 1: delta at epsilon by Balle and Wang 2018, and the
    # best test by Neyman and Pearson.
    for mu in (0.3, 1.0, 2.5):
        for epsilon in (0.1, 1.0, 3.0):
            delta = norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(
                -mu / 2 - epsilon / mu
            )
            found = claim(epsilon, float(delta))
            rates = np.linspace(0.0005, 0.9995, 400)
            best = norm.sf(norm.isf(rates) - mu)
            allowed = np.array([found.tpr_max(rate) for rate in rates.tolist()])
            assert (best <= allowed + 1e-9).all()
            # And some test comes up to it: the bound is no looser than delta says.
            assert (allowed - best).min() < 2e-3


def test_two_steps_are_the_composition_of_one_after_the_other() -> None:
    one, two = claim(0.7, 1e-3), claim(0.7, 1e-3, steps=2)
    assert two.epsilon == pytest.approx(1.4)
    assert two.delta == pytest.approx(1e-3 * (1 + math.exp(0.7)))
    assert two.tpr_max(0.001) == pytest.approx(one.tpr_max(one.tpr_max(0.001)))


def test_a_huge_epsilon_allows_everything() -> None:
    assert claim(5000.0, 1e-5).tpr_max(0.001) == 1.0


@pytest.mark.parametrize("unit", ["record", "client"])
def test_a_claim_of_records_needs_records_that_are_held_out(unit: str) -> None:
    found = claim_of(attacked_run(cell(records_spec(federation__validation_unit=unit))))
    if unit == "client":
        assert isinstance(found, str)
        assert "hold out records" in found
    else:
        assert isinstance(found, Claim)
        assert (found.unit, found.steps) == ("record", 1)
        assert found.claimed.observer == "final_model"
