"""The synthetic fairness task (Galli et al., SN Computer Science 2023), end to end."""

from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from fedaudit.fairness.gaps import gaps
from fedaudit.training.base.rounds import FinalResult
from tests.fairness.disclosures import disclosed_counts
from tests.training.specs import groups_spec, train

FALSE_ALARM = 1e-6


# The gap of a perfect model, by integration over u; a gap of 0 would be a bug.
U = (np.arange(10_000) + 0.5) / 10_000
BASE_RATES = stats.norm.cdf(U / np.hypot(5, 6)).mean(), stats.norm.cdf(-U / np.hypot(4, 4.5)).mean()


def task(**changes: object) -> dict[str, object]:
    return groups_spec(
        **{
            "federation__clients_per_group": [800, 200],
            "training__cohort": {"clients": 70},
            "training__rounds": 400,
            "training__clustering": {"method": "k-means", "empty_cluster": "keep"},
            "training__stopping": {"patience": 30},
            **changes,
        }
    )


def figures(counts: NDArray[np.int64]) -> dict[str, float]:
    (found,) = gaps(counts, disclosed_counts(counts, minimum_group_size=30))
    assert all(figure.value is not None for figure in found)
    return {figure.metric: figure.value or 0.0 for figure in found}


@cache
def outcome(hypotheses: int, nu: float, seed: int) -> tuple[FinalResult, dict[str, float]]:
    spec = task(training__hypotheses=hypotheses, privacy__noise_multiplier=nu, seed=seed)
    result = train(spec)[1]
    return result, figures(result.fairness["group"].sum(0))


@pytest.mark.parametrize(("nu", "seed"), [(1.0, 1), (1.0, 2), (5.0, 1)])
def test_two_hypotheses_are_fairer_than_one(nu: float, seed: int) -> None:
    (single, one), (double, two) = outcome(1, nu, seed), outcome(2, nu, seed)
    for metric in (
        "demographic_parity_difference",
        "equalized_odds_difference",
        "equal_opportunity_difference",
    ):
        assert two[metric] < 0.6 * one[metric]
    assert double.validation_loss < 0.3 * single.validation_loss


@pytest.mark.parametrize("seed", [1, 2])
def test_two_hypotheses_come_near_the_perfect_model(seed: int) -> None:
    result, found = outcome(2, 1.0, seed)
    # The uniform error that no model explains: a standard deviation of sqrt(1/12).
    assert result.validation_loss == pytest.approx(np.sqrt(1 / 12), rel=0.2)
    # 4,000 and 1,000 rows: the gap of a perfect model spreads by about 0.018.
    spread = np.sqrt(0.25 / 4000 + 0.25 / 1000)
    sigmas = stats.norm.isf(FALSE_ALARM / 2)
    perfect = BASE_RATES[0] - BASE_RATES[1]
    assert abs(found["demographic_parity_difference"] - perfect) < sigmas * spread
    assert found["equalized_odds_difference"] < 0.1


@pytest.mark.parametrize("hypotheses", [1, 2])
def test_in_the_control_there_is_nothing_to_mend(hypotheses: int) -> None:
    """A group that is independent of the distribution, and one rule: fair from the outset."""
    control = task(
        training__hypotheses=hypotheses,
        federation__independent_attribute=True,
        fairness__favourable={"op": "ge", "value": 0},
    )
    found = figures(train(control)[1].fairness["group"].sum(0))
    # The share of the shifted distribution among 100 clients alone spreads the gap by 0.02.
    assert found["demographic_parity_difference"] < 0.15
