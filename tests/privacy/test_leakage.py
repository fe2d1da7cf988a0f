"""Leakage by the paper's convention, and the sum that the theorem bounds.

Leakage by cluster, followed from round to round, against a pass over everybody.

What noise hides between two hypotheses, against densities computed by hand.
"""

from decimal import Decimal
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fedaudit.privacy.leakage import (
    ClusterCounts,
    clipped_reach,
    largest_participation,
    leakage,
    leakage_quantiles,
    leakages,
    listed_pairs,
    part_distances,
    release_epsilons,
    training_releases,
    worst_log_ratio,
)


def test_the_papers_numbers():
    # Section 5.1: n = 2 and nu = 5 cost 0.4 a participation; six of them the 2.4 it reports.
    assert leakage(1, n=2, noise_multiplier=5.0) == 0.4
    assert leakage(6, n=2, noise_multiplier=5.0) == 2.4
    # Section 5.2: 11 parameters.
    assert leakage(3, n=11, noise_multiplier=3.0) == 11.0
    assert release_epsilons(11, noise_multiplier=3.0, radii=0.5) == pytest.approx(22 / 3, rel=1e-15)


@given(
    st.decimals("0.001", "1000", places=3), st.integers(1, 500), st.decimals("0.1", "99", places=2)
)
@example(Decimal("1.2"), 2, Decimal("5.0"))  # 3 * 0.4 in doubles exceeds 1.2
@example(Decimal("0.3"), 1, Decimal("10.0"))
@example(Decimal("0.39"), 2, Decimal("5.0"))
def test_the_largest_participation_is_the_last_within_the_budget(budget, n, nu):
    most = largest_participation(float(budget), n, float(nu))
    cost = Fraction(n) / Fraction(nu)
    assert most * cost <= Fraction(budget) < (most + 1) * cost


@given(st.integers(0, 10**6), st.integers(1, 10**6), st.floats(1e-3, 1e3))
def test_leakage_is_rounded_once(releases, n, nu):
    exact = Fraction(releases * n) / Fraction(nu)
    assert leakage(releases, n=n, noise_multiplier=nu) == float(exact)


def test_over_layers_the_worst_sum_is_that_of_cauchy_and_schwarz():
    asked = {"noise_multiplier": 3.0, "radius": 0.7, "clip": 0.4}
    whole = worst_log_ratio(5, sizes=[9], **asked)
    assert whole == pytest.approx(5 * 0.8 * 9 / (3 * 0.7), rel=1e-15)
    layered = worst_log_ratio(5, sizes=[6, 3], **asked)
    # The worst split of a distance of 0.8 over the layers, by search.
    angles = np.linspace(0, np.pi / 2, 100_001)
    rates = np.array([6, 3]) / (3 * 0.7)
    worst = (0.8 * (rates[0] * np.cos(angles) + rates[1] * np.sin(angles))).max()
    assert layered == pytest.approx(5 * worst, rel=1e-9)
    assert worst_log_ratio(0, sizes=[9], **asked) == 0


def test_at_one_radius_the_theorem_gives_the_leakage():
    bound = worst_log_ratio(8, sizes=[11], noise_multiplier=3.0, radius=0.25, clip=0.125)
    assert bound == pytest.approx(leakage(8, n=11, noise_multiplier=3.0), rel=1e-15)


def test_medians_count_training_clients_that_never_took_part_and_no_others():
    releases = np.array([0, 4, 0, 0, 2, 0, 1], dtype=np.int32)  # three of seven are held out
    found = leakage_quantiles(releases, training_clients=4, n=2, noise_multiplier=5.0)
    assert (found["p50"], found["p25"]) == pytest.approx((0.6, 0.3))
    with pytest.raises(ValueError, match="3 of 7 clients released something, but only 2 train"):
        leakage_quantiles(releases, training_clients=2, n=2, noise_multiplier=5.0)


def test_each_quantile_is_that_of_its_name():
    """Of 0 to 100 releases the share and the number are one."""
    found = leakage_quantiles(np.arange(101), training_clients=101, n=2, noise_multiplier=4.0)
    assert found == {"p05": 2.5, "p25": 12.5, "p50": 25.0, "p75": 37.5, "p95": 47.5}


def test_where_nobody_is_held_out_everybody_trains_and_nobody_more():
    releases = np.array([3, 0, 1], dtype=np.int32)
    assert training_releases(releases, training_clients=3).tolist() == [0, 1, 3]
    assert training_releases(np.zeros(7, np.int32), training_clients=5).tolist() == [0] * 5
    for more in (4, 5, 6):
        with pytest.raises(ValueError, match=f"only {more} train"):
            training_releases(np.zeros(3, np.int32), training_clients=more)


@given(
    st.lists(st.tuples(st.integers(1, 500), st.floats(1e-3, 1e3)), min_size=1, max_size=5),
    st.floats(1e-2, 1e2),
)
def test_many_at_once_are_each_alone(parts, nu):
    sizes, radii = zip(*parts, strict=True)
    found = release_epsilons(sizes, noise_multiplier=nu, radii=radii)
    assert found.tolist() == [n / (nu * r) for n, r in parts]
    shared = leakages(3, n=sizes, noise_multiplier=nu)
    assert shared.tolist() == [leakage(3, n=n, noise_multiplier=nu) for n in sizes]


CLIENTS, CLUSTERS = 9, 3
N, NU = 11, 3.7
PRICE = partial(leakage, n=N, noise_multiplier=NU)


def cohorts(least: int, most: int) -> st.SearchStrategy:
    return st.lists(
        st.lists(
            st.tuples(st.integers(0, CLIENTS - 1), st.integers(-1, CLUSTERS - 1), st.booleans()),
            unique_by=lambda part: part[0],
            min_size=least,
            max_size=most,
        ),
        max_size=25,
    )


rounds = cohorts(1, CLIENTS) | cohorts(3, 3)


def by_hand(clusters, releases):
    """The same figures from scratch, as the report takes them."""
    return [
        {
            "cluster": cluster,
            "clients": int((clusters == cluster).sum()),
            "leakage_median": float(np.median(releases[clusters == cluster])) * N / NU,
            "leakage_max": float(int(releases[clusters == cluster].max()) * N) / NU,
        }
        for cluster in range(CLUSTERS)
        if (clusters == cluster).any()
    ]


NOBODY = np.zeros(0, np.int32), np.zeros(0, np.int16), np.zeros(0, np.int32)


def follow(counts, *rounds_played):
    """Rounds of (clients, clusters, releases), together."""
    clients, clusters, releases = map(np.stack, zip(*rounds_played, strict=True))
    price = partial(leakages, n=N, noise_multiplier=NU)
    return counts.follow(clients, clusters=clusters, releases=releases, price=price)


@given(rounds)
def test_following_gives_what_counting_anew_gives(played):
    clusters, releases = np.full(CLIENTS, -1, np.int16), np.zeros(CLIENTS, np.int32)
    one_by_one, at_once = (ClusterCounts(clusters, releases) for _ in range(2))
    together, expected = [], []
    for cohort in played:
        clients = np.array([client for client, _, _ in cohort], np.int32)
        put = np.array([cluster for _, cluster, _ in cohort], np.int16)
        # A lost round charges a client whose cluster nobody knows; a refusal charges nothing.
        releases[clients] += np.array([charged for _, _, charged in cohort], np.int32)
        clusters[clients] = np.where(put >= 0, put, clusters[clients])
        columns = clients, put, releases[clients]
        [found] = follow(one_by_one, columns)
        together.append(columns)
        expected.append(by_hand(clusters, releases))
        assert found == expected[-1]
    # Rounds as wide as each other may be followed together.
    for width in {len(clients) for clients, _, _ in together}:
        alike = [columns for columns in together if len(columns[0]) == width]
        if len(alike) == len(together):
            assert follow(at_once, *alike) == expected
    # A worker that takes the run up begins from where everybody stands.
    resumed = ClusterCounts(clusters, releases)
    assert follow(resumed, NOBODY) == [by_hand(clusters, releases)]


def test_what_it_is_given_is_not_kept():
    clusters, releases = np.zeros(2, np.int16), np.ones(2, np.int32)
    followed = ClusterCounts(clusters, releases)
    clusters[:], releases[:] = 5, 9
    [found] = follow(followed, NOBODY)
    price = PRICE(1.0)
    assert found == [{"cluster": 0, "clients": 2, "leakage_median": price, "leakage_max": price}]


def test_the_exponent_is_reached_and_never_passed():
    """The density K exp(-epsilon ||x||) of one layer each, two layers, far and near outputs."""
    rng = np.random.default_rng(4)
    hypotheses = rng.normal(size=(2, 5)).astype(np.float32)
    rates, parts = np.array([[0.7, 2.5]]), (2, 3)
    (bound,) = rates @ part_distances(hypotheses, parts=parts)[0, 1]
    first, second = hypotheses.astype(np.float64)

    def log_density(outputs, center):
        apart = outputs - center
        return -0.7 * np.linalg.norm(apart[..., :2], axis=-1) - 2.5 * np.linalg.norm(
            apart[..., 2:], axis=-1
        )

    outputs = rng.normal(scale=5, size=(20_000, 5))
    ratios = np.abs(log_density(outputs, first) - log_density(outputs, second))
    assert ratios.max() <= bound
    # Beyond one of the two, on the line through both, in each layer: the bound itself.
    assert abs(log_density(first, first) - log_density(first, second)) == pytest.approx(
        bound, rel=1e-12
    )


def test_clipped_updates_reach_no_further():
    """Random updates of norm 2c between any two datasets, over layers of unlike rates."""
    rng = np.random.default_rng(5)
    rates, clip = np.array([[0.3, 4.0, 1.0]]), 0.8
    (reach,) = clipped_reach(rates, clip=clip)
    apart = rng.normal(size=(50_000, 3, 4))
    apart *= 2 * clip / np.linalg.norm(apart.reshape(-1, 12), axis=1)[:, None, None]
    found = np.linalg.norm(apart, axis=2) @ rates[0]
    assert found.max() <= reach
    worst = np.zeros((3, 4))
    worst[:, 0] = 2 * clip * rates[0] / np.linalg.norm(rates[0])
    assert float(np.linalg.norm(worst, axis=1) @ rates[0]) == pytest.approx(reach)


def test_distances_by_part_make_up_the_whole():
    hypotheses = np.array([[0, 0, 0], [3, 4, 12], [3, 4, 0]], np.float32)
    found = part_distances(hypotheses, parts=(2, 1))
    np.testing.assert_array_equal(found[0, 1], [5, 12])
    np.testing.assert_array_equal(found[1, 0], [5, 12])
    np.testing.assert_array_equal(found[1, 2], [0, 12])
    np.testing.assert_array_equal(np.linalg.norm(found, axis=-1)[0], [0, 13, 5])
    three = part_distances(hypotheses, parts=(1, 1, 1))
    np.testing.assert_array_equal(three[0, 1], [3, 4, 12])
    for parts in ((2,), (2, 2)):
        with pytest.raises(ValueError, match=f"of {sum(parts)} parameters .* cannot make up 3"):
            part_distances(hypotheses, parts=parts)


def test_all_pairs_of_six_and_two_of_seven():
    distances = np.abs(np.subtract.outer(np.arange(7.0) ** 2, np.arange(7.0) ** 2))
    assert len(listed_pairs(distances[:6, :6])) == 15
    assert listed_pairs(distances) == [(0, 1), (0, 6)]
    assert listed_pairs(np.zeros((1, 1))) == []
