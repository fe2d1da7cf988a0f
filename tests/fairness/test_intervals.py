"""Bootstrap intervals over clients."""

import numpy as np
import pytest

from fedaudit.fairness.intervals import bootstrap_intervals
from fedaudit.spec.metrics import METRICS
from tests.fairness.disclosures import disclosed_clients


def clients(count: int, rates: tuple[float, float], seed: int, rows: int = 6):
    """Half the clients in each group; predictions favourable with the group's rate."""
    rng = np.random.default_rng(seed)
    counts = np.zeros((count, 2, 4), dtype=np.int64)
    for client in range(count):
        group = client % 2
        favoured = rng.random(rows) < rates[group]
        true = rng.random(rows) < 0.5
        for kind, which in enumerate((true & favoured, ~true & favoured, ~true & ~favoured)):
            counts[client, group, kind] = which.sum()
        counts[client, group, 3] = (true & ~favoured).sum()
    return counts


def intervals(counts, *, minimum_group_size=5, **changes):
    settings = {"level": 0.95, "samples": 400, "seed": 3, **changes}
    disclosure = disclosed_clients(counts, minimum_group_size=minimum_group_size)
    return bootstrap_intervals(counts, disclosure, **settings)


def test_the_same_seed_gives_the_same_interval_and_another_stream_another():
    counts = clients(60, (0.6, 0.3), seed=1)
    assert intervals(counts) == intervals(counts)
    assert intervals(counts) != intervals(counts, stream=1)
    assert intervals(counts) != intervals(counts, seed=4)


def test_a_higher_level_gives_a_wider_interval():
    counts = clients(60, (0.6, 0.3), seed=1)
    narrow, wide = intervals(counts, level=0.5), intervals(counts, level=0.99)
    for metric in METRICS:
        assert wide[metric].low < narrow[metric].low < narrow[metric].high < wide[metric].high


def test_clients_that_are_all_alike_leave_nothing_uncertain():
    counts = np.tile(np.array([[3, 1, 3, 1], [2, 2, 2, 2]]), (25, 1, 1))
    found = intervals(counts)["demographic_parity_difference"]
    # Both groups have rates of one half in every draw.
    assert (found.low, found.high, found.reason) == (0.0, 0.0, None)


def test_the_interval_covers_the_true_gap_about_as_often_as_it_says():
    # 200 data sets; a nominal 95 % interval that truly covers 91 % or more falls below 84 %
    # in fewer than 1 of 1,000 seeds (binomial tail), and so does one of 99.9 % reach 200.
    covered = 0
    for seed in range(200):
        found = intervals(clients(60, (0.7, 0.3), seed=seed), samples=200, seed=seed)
        low, high = (
            found["demographic_parity_difference"].low,
            found["demographic_parity_difference"].high,
        )
        covered += low <= 0.4 <= high
    assert 168 <= covered < 200


def test_too_few_clients_have_no_interval():
    for metric, found in intervals(clients(19, (0.6, 0.3), seed=1)).items():
        assert metric in METRICS
        assert (found.low, found.high) == (None, None)
        assert found.reason == "19 clients have rows in the groups shown; an interval needs 20"


def test_clients_without_rows_do_not_count():
    counts = np.concatenate([clients(19, (0.6, 0.3), seed=1), np.zeros((50, 2, 4), dtype=int)])
    assert intervals(counts)["equalized_odds_ratio"].low is None


def test_draws_without_a_value_are_left_out_and_counted():
    counts = np.zeros((40, 2, 4), dtype=np.int64)
    counts[:20, 0] = (3, 1, 3, 1)
    counts[20:, 1] = (0, 2, 3, 0)
    counts[20:24, 1] = (1, 2, 3, 1)  # the only positives of the second group: 4 of 40 clients
    found = intervals(counts, samples=2000)
    # A draw misses all four with chance (36/40)**40 = 1.5 %.
    assert found["demographic_parity_difference"].reason is None
    stated = found["equal_opportunity_difference"]
    assert stated.low is not None
    assert stated.reason.endswith("of 2000 draws were undefined and left out")
    counts[21:24, 1] = (0, 2, 3, 0)  # one client alone: a third of the draws miss it
    stated = intervals(counts, samples=2000)["equal_opportunity_difference"]
    assert stated.low is None
    assert "at most 5% may be" in stated.reason


def test_hidden_groups_stay_hidden_in_every_draw():
    counts = clients(60, (0.6, 0.3), seed=1)
    with pytest.raises(ValueError, match="are not those whose disclosure was decided"):
        bootstrap_intervals(counts, disclosed_clients(counts[1:]), level=0.9, samples=9, seed=1)
    hidden = intervals(counts, minimum_group_size=1000)
    assert all(found.low is None for found in hidden.values())
