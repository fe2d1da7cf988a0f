"""Bounds from guessed coins: exact where there is an exact answer, and rarely wrong elsewhere."""

import math
from collections.abc import Iterator
from functools import partial

import numpy as np
import pytest
from scipy.stats import binom, norm

from benchmarks.canary_scenarios import gaussian_mu
from fedaudit.privacy.accounting.privacy_events import Adjacency
from fedaudit.privacy.lower_bounds.epsilon_bounds import (
    GuessTest,
    QuietSum,
    by_score,
    fewest_correct,
    most_canaries,
    one_run_epsilon,
    one_run_p_value,
    possible_tests,
    refutes,
    releases_in_sum,
    summed_epsilon,
    summed_power,
)
from fedaudit.privacy.lower_bounds.release_law import ReleaseLaw, gaussian_epsilon, simulated


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
    right = generator.binomial(20_000, 1 / (1 + math.exp(-1)), size=20)
    found = [
        one_run_epsilon(
            canaries=20_000, guesses=20_000, correct=int(one), delta=0.0, significance=0.01
        )
        for one in right
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


# -- sums of releases: that in which noise cancels is found, and tells no more than is so ---------


SIGNIFICANCE, REPEATS, RELEASES = 0.1, 200, 8
ALIKE = np.eye(RELEASES)
COVARIANCES = {
    "as claimed": ALIKE,
    "telescoping": ALIKE - (np.eye(RELEASES, k=1) + np.eye(RELEASES, k=-1)) / 2,
    "shared": 0.81 * np.ones_like(ALIKE) + 0.19 * ALIKE,
    "cancelling": np.kron(np.eye(RELEASES // 2), [[1.0, -1 + 1e-6], [-1 + 1e-6, 1.0]]),
}


def _tried(
    covariance: np.ndarray, *, canaries: int, deviation: float, numbers: int = 100
) -> Iterator[tuple[float, float, float]]:
    """The bound, the truth for its sum, and what no sum passes where noise is as claimed."""
    generator = np.random.default_rng(canaries)
    root = deviation * np.linalg.cholesky(covariance)
    moments = np.arange(RELEASES)
    for _ in range(REPEATS):
        noise = root @ generator.standard_normal((RELEASES, 2 * numbers))
        signal = np.zeros((RELEASES, numbers))
        signal[:, :canaries] = np.sign(generator.standard_normal((RELEASES, canaries)))
        found = QuietSum.of_noise(noise[:, numbers:], moments)
        assert np.abs(found.weights).sum() == pytest.approx(1.0)
        ratio = found.least_ratio(signal + noise[:, :numbers], signal, significance=SIGNIFICANCE)
        own = deviation * math.sqrt(found.weights @ covariance @ found.weights)
        yield ratio, 1 / own, math.sqrt(RELEASES) / deviation


@pytest.mark.parametrize("canaries", [2, 5, 40])
@pytest.mark.parametrize("name", COVARIANCES)
def test_it_is_wrong_no_more_often_than_it_says(name: str, canaries: int) -> None:
    tried = list(_tried(COVARIANCES[name], canaries=canaries, deviation=3.0))
    wrong = sum(ratio > truth for ratio, truth, _ in tried)
    # Four standard deviations of a binomial number above the significance.
    assert wrong <= REPEATS * SIGNIFICANCE + 4 * math.sqrt(REPEATS * SIGNIFICANCE * 0.9)
    if name == "as claimed":
        assert all(truth <= most * (1 + 1e-9) for _, truth, most in tried)
    elif canaries == 40:
        assert np.median([ratio / most for ratio, _, most in tried]) > 1


def test_its_power_is_about_what_is_stated() -> None:
    law = ReleaseLaw(ratio=0.5, rate=1.0, compositions=RELEASES, adjacency="add-or-remove-one")
    stated = summed_power(law, claimed=0.7, weight=20, numbers=200, significance=SIGNIFICANCE)
    tried = _tried(ALIKE, canaries=20, deviation=1.0)
    seen = np.mean([ratio > 0.7 * most for ratio, _, most in tried])
    assert 0.1 < stated < 0.99
    assert seen == pytest.approx(stated, abs=4 * (0.25 / REPEATS) ** 0.5)
    coins = ReleaseLaw(ratio=0.5, rate=0.5, compositions=8, adjacency="replace-one")
    assert summed_power(coins, claimed=0.5, weight=20, numbers=200, significance=0.1) == 0


def test_a_second_release_of_the_same_adds_no_length() -> None:
    """Of two releases of one moment no unit turns one alone, so their difference tells nothing."""
    generator = np.random.default_rng(0)
    noise = generator.standard_normal((3, 200))
    noise[2] = noise[1] + 1e-9 * generator.standard_normal(200)
    found = QuietSum.of_noise(noise, np.array([0, 1, 1]))
    assert abs(found.weights[0]) + abs(found.weights[1] + found.weights[2]) == pytest.approx(1.0)
    assert 1 / np.std(found.weights @ noise) == pytest.approx(math.sqrt(2), rel=0.2)


@pytest.mark.parametrize("adjacency", ["add-or-remove-one", "replace-one"])
def test_a_sampled_sum_tells_no_more_than_all_releases(adjacency: Adjacency) -> None:
    law = ReleaseLaw(ratio=0.5, rate=0.2, compositions=10, adjacency=adjacency)
    lengths = np.full(10, law.ratio / law.reach / math.sqrt(10))
    # What all of them tell is known from below, to less than a hundredth.
    assert 0 < summed_epsilon(law, lengths, 1e-5) < 1.01 * law.epsilon(1e-5)
    full, near = (
        ReleaseLaw(ratio=0.5, rate=rate, compositions=10, adjacency=adjacency)
        for rate in (1.0, 1 - 1e-9)
    )
    exact = gaussian_epsilon(law.reach * float(lengths.sum()), 1e-5)
    assert summed_epsilon(full, lengths, 1e-5) == exact
    assert 0.97 * exact < summed_epsilon(near, lengths, 1e-5) <= exact


def test_a_sum_without_noise_tells_what_chance_allows() -> None:
    law = ReleaseLaw(ratio=0.5, rate=1e-7, compositions=2, adjacency="add-or-remove-one")
    bare = np.full(2, 1e3)
    assert summed_epsilon(law, bare, 1e-5) == 0
    assert summed_epsilon(law, bare, 1e-8) > 100
    assert summed_epsilon(law, np.zeros(2), 1e-5) == 0


def test_few_numbers_or_canaries_give_no_bound() -> None:
    assert (releases_in_sum(1, 10_000), releases_in_sum(10, 15)) == (0, 0)
    assert (releases_in_sum(10, 40), releases_in_sum(500, 10_000)) == (5, 64)
    found = QuietSum.of_noise(np.zeros((2, 9)), np.arange(2))
    signal = np.zeros((2, 9))
    assert found.least_ratio(signal, signal, significance=0.01) == 0
    signal[:, :2] = 1.0
    assert found.least_ratio(signal, signal, significance=0.01) == 1e3
    assert found.least_ratio(-signal, signal, significance=0.01) == 0
