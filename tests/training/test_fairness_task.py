"""The synthetic fairness task (Galli et al., SN Computer Science 2023), end to end."""

from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from fedaudit.fairness.gaps import gaps
from fedaudit.federations.federation import Federation
from fedaudit.training.base.cell import Cell
from fedaudit.training.base.rounds import FinalResult
from fedaudit.training.base.scored_rows import GroupCounter
from tests.fairness.disclosures import disclosed_counts
from tests.training.specs import cell, groups_spec, train

FALSE_ALARM = 1e-6
GROUPS = ("g1", "g2")


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
    assert abs(found["demographic_parity_difference"] - 0.0586) < sigmas * spread
    assert found["equalized_odds_difference"] < 0.1


def perfect_counts(one: Cell) -> NDArray[np.int64]:
    """Counts of predictions by what generated the data."""
    data: Federation = one.federation
    group = np.repeat([0, 1], one.spec.federation.clients_per_group)[data.client_of]
    slopes = np.array([[5, 6], [4, -4.5]])[group]
    predictions = np.einsum("rf,rf->r", data.side_by_side, slopes)
    predictions += np.array([0.5, 15.5])[group]  # half of what is uniform
    counter = GroupCounter([data], one.spec.fairness)
    together = np.zeros(data.rows, dtype=np.int64)
    return counter.count_rows(
        predictions.astype(np.float32), np.arange(data.rows), together, slots=1
    )["group"][0]


def test_the_perfect_model_shows_the_difference_of_the_base_rates() -> None:
    """0.0586, by integration over u; a gap of 0 would be a bug."""
    u = (np.arange(10_000) + 0.5) / 10_000
    theory = (
        stats.norm.cdf(u / np.hypot(5, 6)).mean() - stats.norm.cdf(-u / np.hypot(4, 4.5)).mean()
    )
    assert theory == pytest.approx(0.0586, abs=5e-5)
    one = cell(task(federation__clients_per_group=[2000, 2000], federation__rows_per_client=100))
    counts = perfect_counts(one)
    assert counts.sum(1).tolist() == [200_000, 200_000]
    spread = stats.norm.isf(FALSE_ALARM / 2) * np.sqrt(2 * 0.25 / 200_000)
    found = figures(counts)
    assert abs(found["demographic_parity_difference"] - theory) < spread
    # Of the truth itself: true positives and false negatives are favourable.
    base_rates = counts[:, [0, 3]].sum(1) / counts.sum(1)
    assert abs(base_rates[0] - base_rates[1] - theory) < spread


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
