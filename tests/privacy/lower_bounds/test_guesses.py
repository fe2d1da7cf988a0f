"""Bounds from guessed coins: exact where there is an exact answer, and rarely wrong elsewhere."""

import math
from functools import partial

import numpy as np
import pytest
from scipy.stats import binom, norm

from benchmarks.canary_scenarios import gaussian_mu
from fedaudit.privacy.lower_bounds.epsilon_bounds import (
    GuessTest,
    by_score,
    fewest_correct,
    most_canaries,
    one_run_epsilon,
    one_run_p_value,
    possible_tests,
    refutes,
)
from fedaudit.privacy.lower_bounds.release_law import ReleaseLaw, simulated


def _law(mu: float) -> ReleaseLaw:
    return ReleaseLaw(ratio=mu, rate=1.0, compositions=1, adjacency="add-or-remove-one")


def test_one_guess_refutes_exactly_what_no_guess_can_reach() -> None:
    """A single coin is guessed rightly with a chance of at most Phi(mu / 2)."""
    most = norm.cdf(0.5)
    for significance, refuted in ((most + 1e-6, True), (most - 1e-6, False)):
        found = refutes(
            _law(1.0).curve(), canaries=1, guesses=1, correct=1, significance=significance
        )
        assert found is refuted


def test_the_one_run_p_value_is_its_formula() -> None:
    """Term by term, as the theorem writes it."""
    m, r, v, epsilon, delta = 30, 12, 10, 0.7, 1e-3
    chance = 1 / (1 + math.exp(-epsilon))
    beta = sum(binom.pmf(k, r, chance) for k in range(v, r + 1))
    alpha = max(
        sum(binom.pmf(k, r, chance) for k in range(max(0, v - i), v)) / i for i in range(1, m + 1)
    )
    found = one_run_p_value(canaries=m, guesses=r, correct=v, epsilon=epsilon, delta=delta)
    assert found == pytest.approx(beta + 2 * m * delta * alpha, rel=1e-12)


def test_randomised_response_is_bounded_tightly_and_from_below() -> None:
    """Where every coin is told with the chance e^1 / (1 + e^1), the bound comes close to 1."""
    generator = np.random.default_rng(1)
    told = generator.binomial(20_000, 1 / (1 + math.exp(-1)), size=20)
    found = [
        one_run_epsilon(
            canaries=20_000, guesses=20_000, correct=int(one), delta=0.0, significance=0.01
        )
        for one in told
    ]
    assert max(found) < 1.0
    assert np.median(found) > 0.95


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_bounds_are_rarely_above_the_truth(epsilon: float) -> None:
    """Of 400 runs at a significance of 0.05, 20 at most on average and 36 once in 3,000."""
    mu, delta = gaussian_mu(epsilon, 1e-5), 1e-5
    law, plan, count = _law(mu), GuessTest(300, 60, 60), 300
    scores, coins = simulated(
        law, ratio=mu, canaries=count, draws=400, generator=np.random.default_rng(2)
    )
    correct = plan.correct(by_score(scores, coins))
    guessed = {"canaries": count, "guesses": plan.guesses}
    p_value = partial(one_run_p_value, **guessed, epsilon=epsilon, delta=delta)
    for refuted in (
        partial(refutes, law.curve(), **guessed, significance=0.05),
        lambda correct: p_value(correct=correct) <= 0.05,
    ):
        needed = fewest_correct(refuted, guesses=plan.guesses)
        assert needed is None or int((correct >= needed).sum()) <= 36


def test_the_curve_sees_more_than_epsilon_and_delta() -> None:
    """20,000 canaries at claim 1 show noise that is halved; the definition alone does not."""
    law, count, plan = _law(gaussian_mu(1.0, 1e-5)), 20_000, GuessTest(20_000, 2000, 2000)
    scores, coins = simulated(
        law, ratio=2 * law.ratio, canaries=count, draws=50, generator=np.random.default_rng(3)
    )
    correct = plan.correct(by_score(scores, coins))
    guessed = {"canaries": count, "guesses": plan.guesses}
    refuted = partial(refutes, law.curve(), **guessed, significance=0.05)
    needed = fewest_correct(refuted, guesses=plan.guesses)
    assert needed is not None
    assert (correct >= needed).mean() > 0.9
    p = one_run_p_value(
        canaries=count, guesses=4000, correct=int(np.median(correct)), epsilon=1.0, delta=1e-5
    )
    assert p > 0.05


def test_guesses_are_the_highest_and_the_lowest() -> None:
    scores = np.array([0.3, -1.0, 2.0, 0.1])
    plan = GuessTest(3, 1, 2)
    assert plan.guessed(scores).tolist() == [0, -1, 1, -1]
    coins = np.array([True, False, True, True])
    assert int(plan.correct(by_score(scores, coins))) == 2
    assert all(one.guesses <= 7 for one in possible_tests(7))


def test_impossible_counts_are_refused_and_few_canaries_are_allowed() -> None:
    assert most_canaries(1e-5) == 1000
    assert most_canaries(0.0) is None
    assert one_run_epsilon(canaries=2, guesses=0, correct=0, delta=0.1, significance=0.01) == 0
    with pytest.raises(ValueError, match="guesses"):
        one_run_p_value(canaries=2, guesses=3, correct=1, epsilon=1, delta=0)
    with pytest.raises(ValueError, match="guesses"):
        refutes(_law(1.0).curve(), canaries=2, guesses=1, correct=2, significance=0.01)
