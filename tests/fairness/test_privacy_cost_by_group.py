"""Which clients belong to which groups, and what a coarse mean over them says."""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import lsq_linear

from fedaudit.fairness.disclosure import DisclosureRule
from fedaudit.fairness.scored_groups import membership


def test_groups_that_pay_alike_have_the_mean_over_all_clients():
    rows = np.repeat(np.eye(2, dtype=np.int64), 20, axis=0)
    releases = np.tile([4, 6, 5, 9], 10)
    found = membership(rows, DisclosureRule(1))
    assert found.unit == "client"
    assert found.coarse_mean(releases, training_clients=40).tolist() == [6.0, 6.0]


def test_a_group_that_pays_far_more_has_a_mean_of_its_own():
    rows = np.repeat(np.eye(2, dtype=np.int64), [900, 100], axis=0)
    releases = np.repeat([10, 30], [900, 100])
    low, high = membership(rows, DisclosureRule(1)).coarse_mean(releases, training_clients=1000)
    # The overall mean is 12, the standard deviation and so the step 6.
    assert (low, high) == (12.0, 30.0)


def test_equal_clients_have_their_figure_to_two_digits():
    rows = np.repeat(np.eye(2, dtype=np.int64), 3, axis=0)
    found = membership(rows, DisclosureRule(1))
    assert found.coarse_mean(np.full(6, 0.1234), training_clients=6).tolist() == [0.12, 0.12]
    assert found.coarse_mean(np.zeros(6, dtype=np.int64), training_clients=6).tolist() == [0.0, 0.0]


def test_a_group_without_rows_has_no_mean():
    rows = np.array([[9, 0], [9, 0]])
    found = membership(rows, DisclosureRule(1)).coarse_mean(np.array([1, 3]), training_clients=2)
    assert np.isnan(found).tolist() == [False, True]


def test_clients_of_several_groups_count_by_their_rows():
    """One silo has nearly all rows of the second group, and took part least by far."""
    rows = np.array([[10, 0]] * 400 + [[9, 1]] * 400 + [[1, 9]] * 400)
    releases = np.repeat([100, 100, 1], 400)
    found = membership(rows, DisclosureRule(1))
    assert found.unit == "record"
    overall, step = releases.mean(), releases.std()
    means = releases @ rows / rows.sum(axis=0)
    expected = overall + step * np.round((means - overall) / step)
    assert expected[1] < overall
    found_means = found.coarse_mean(releases, training_clients=1200)
    assert found_means == pytest.approx(expected, rel=0.05)


def test_small_groups_and_single_clients_are_hidden_with_another_beside_them():
    rows = np.zeros((9, 4), dtype=np.int64)
    rows[:3, 0], rows[3:6, 1], rows[6:8, 2], rows[8, 3] = 100, 50, 40, 300
    found = membership(rows, DisclosureRule(30))
    # g3 has one client; the smallest of the others is kept back with it.
    assert found.disclosure.shown.tolist() == [True, True, False, False]
    # g2 has too few rows, and g1 is kept back with it, whatever is hidden besides.
    larger = membership(rows, DisclosureRule(130)).disclosure
    assert larger.shown.tolist() == [True, False, False, False]


# -- the attack -----------------------------------------------------------------------------------

CLIENTS, CARRIERS, TRAIN = 60, 13, 48


def participations(
    random: np.random.Generator, *, rounds: int, cohort: int
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """How often each client took part, known to the attacker from the seed, and who trained."""
    training = np.zeros(CLIENTS, dtype=bool)
    training[random.permutation(CLIENTS)[:TRAIN]] = True
    counts = np.zeros(CLIENTS)
    for _ in range(rounds):
        counts[random.choice(np.flatnonzero(training), cohort, replace=False)] += 1
    return counts, training


def recovered(seed: int, *, reports: int, exact: bool) -> float:
    """The share of carriers among the clients whom the attack takes for the carriers.

    Each report on other training clients gives sum over i of (a_i - mean) x_i = 0, a_i the
    participations and x_i whether client i carries; the attacker also knows how many carry. Bounded
    least squares, each equation weighed by how far its mean can be off.
    """
    random = np.random.default_rng(seed)
    carries = np.zeros(CLIENTS, dtype=bool)
    carries[random.permutation(CLIENTS)[:CARRIERS]] = True
    equations, sides, weights = [np.ones(CLIENTS)], [float(CARRIERS)], [10.0]
    for _ in range(reports):
        counts, training = participations(random, rounds=50, cohort=10)
        rows = 5 * np.stack([training & carries, training & ~carries], axis=1).astype(np.int64)
        own = membership(rows, DisclosureRule(1))
        if exact:
            means = counts @ rows / rows.sum(axis=0)
        else:
            means = own.coarse_mean(counts, training_clients=TRAIN)
        for group, mean in enumerate(means):
            row = np.where(training, counts - mean, 0)
            equations.append(row)
            sides.append(0.0 if group == 0 else float(row.sum()))
            weights.append(1e3 if exact else 0.1)
    left = np.array(equations) * np.array(weights)[:, None]
    guess = lsq_linear(left, np.array(sides) * np.array(weights), bounds=(0, 1)).x
    taken = np.argsort(-guess)[:CARRIERS]
    return float(carries[taken].mean())


def test_exact_means_give_every_client_away():
    """So that the attack below is one that works."""
    assert [recovered(seed, reports=70, exact=True) for seed in range(3)] == [1.0] * 3


def test_coarse_means_leave_the_attack_guessing():
    """Guessing finds 13 of 60, 22 % of the carriers. Measured over 20 seeds: 35 reports find 22 %;
    over 10 seeds, 350 reports find 24 %."""
    few = np.mean([recovered(seed, reports=35, exact=False) for seed in range(5)])
    many = np.mean([recovered(seed, reports=350, exact=False) for seed in range(1)])
    assert few < 0.35
    assert many < 0.45


@pytest.mark.parametrize("members", [2, 5, 20, 200])
def test_one_client_never_shows(members):
    """A run of one round with one client: an exact mean says which group the client is of."""
    rows = np.repeat(np.eye(2, dtype=np.int64), [members, 1000 - members], axis=0)
    found = membership(rows, DisclosureRule(1))
    for client in (0, 999):
        alone = (np.arange(1000) == client).astype(np.int64)
        assert found.coarse_mean(alone, training_clients=1000).tolist() == [0.001, 0.001]
