"""Leakage by cluster, followed from round to round, against a pass over everybody."""

from functools import partial

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.privacy.leakage import ClusterCounts, leakage

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


def follow(counts, *rounds_played):
    """Rounds of (clients, clusters, releases), together."""
    clients, clusters, releases = map(np.stack, zip(*rounds_played, strict=True))
    return counts.follow(clients, clusters=clusters, releases=releases, price=PRICE)


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
        assert found == expected[-1] == one_by_one.leakage(PRICE)
    # Rounds as wide as each other may be followed together.
    for width in {len(clients) for clients, _, _ in together}:
        alike = [columns for columns in together if len(columns[0]) == width]
        if len(alike) == len(together):
            assert follow(at_once, *alike) == expected
    # A worker that takes the run up begins from where everybody stands.
    resumed = ClusterCounts(clusters, releases)
    assert resumed.leakage(PRICE) == by_hand(clusters, releases)


def test_what_it_is_given_is_not_kept():
    clusters, releases = np.zeros(2, np.int16), np.ones(2, np.int32)
    followed = ClusterCounts(clusters, releases)
    clusters[:], releases[:] = 5, 9
    assert followed.leakage(partial(leakage, n=2, noise_multiplier=1.0)) == [
        {"cluster": 0, "clients": 2, "leakage_median": 2.0, "leakage_max": 2.0}
    ]
