"""Null distributions of gaps, against exact ones and by their own false alarms."""

import numpy as np
import pytest
from scipy.stats import binom, hypergeom

from fedaudit.fairness.gaps import ZERO_OVER_ZERO, GroupScores, gap_values, gaps
from fedaudit.fairness.permutation import (
    NO_GAP,
    _generator,
    _records,
    permutation_nulls,
    score_nulls,
)
from fedaudit.spec.metrics import METRICS, SCORE_METRICS
from tests.fairness.disclosures import disclosed_clients, disclosed_counts, disclosed_scores

PARITY = "demographic_parity_difference"


def of_clients(group, favoured, true):
    """Counts [clients, groups, 4] of rows [clients, rows]; `group` [clients]."""
    counts = np.zeros((len(group), int(group.max()) + 1, 4), dtype=np.int64)
    kinds = (true & favoured, ~true & favoured, ~true & ~favoured, true & ~favoured)
    for kind, which in enumerate(kinds):
        counts[np.arange(len(group)), group, kind] = which.sum(axis=1)
    return counts


def random_clients(rng, *, clients, groups, rows=30, alike=False):
    """Clients whose group has nothing to do with their rows; `alike`: a client's are all one."""
    group = np.arange(clients) % groups
    drawn = rng.random((clients, 1 if alike else rows, 2)) < 0.5
    favoured, true = np.broadcast_to(drawn, (clients, rows, 2)).transpose(2, 0, 1)
    return of_clients(group, favoured, true)


def nulls(counts, *, minimum_group_size=5, reference=None, **changes):
    disclosure = disclosed_clients(
        counts, minimum_group_size=minimum_group_size, reference=reference
    )
    return permutation_nulls(counts, disclosure, **{"seed": 3, **changes})


def nulls_of_scores(scores, *, root_mean):
    disclosure = disclosed_scores(scores, minimum_group_size=5)
    return score_nulls(scores, disclosure, root_mean=root_mean, seed=3)


# -- against what is known exactly ----------------------------------------------------------------


def test_exchanged_rows_have_the_hypergeometric_distribution():
    # Two groups of 12 and 8 rows, 9 of the 20 favoured; clients have rows of both.
    counts = np.zeros((4, 2, 4), dtype=np.int64)
    counts[:, 0], counts[:, 1] = (1, 1, 1, 0), (0, 0, 1, 1)
    counts[0, 1, 1], counts[0, 1, 2] = 1, 0
    favoured = int(counts[..., :2].sum())
    many = 40_000
    found = nulls(counts, permutations=many)[PARITY]
    assert found.unit == "record"
    share = np.arange(favoured + 1)
    chance = hypergeom.pmf(share, 20, favoured, 12)
    gap = np.abs(share / 12 - (favoured - share) / 8)
    mean, spread = (chance * gap).sum(), np.sqrt((chance * gap**2).sum() - (chance @ gap) ** 2)
    # Five standard errors: a false alarm in fewer than 1 of 10^6 seeds.
    assert abs(found.mean - mean) < 5 * spread / np.sqrt(many)
    observed = abs(counts[:, 0, :2].sum() / 12 - counts[:, 1, :2].sum() / 8)
    exact = chance[gap >= observed - 1e-12].sum()
    assert abs(found.p_value - exact) < 5 * np.sqrt(exact * (1 - exact) / many) + 1 / many


def test_every_exchange_keeps_group_sizes_and_kinds():
    rng = np.random.default_rng(1)
    pooled = rng.integers(0, 9, size=(30, 4))
    drawn = _records(pooled, 50, _generator(3, 0))
    assert drawn.min() >= 0
    np.testing.assert_array_equal(drawn.sum(axis=2), np.tile(pooled.sum(axis=1), (50, 1)))
    np.testing.assert_array_equal(drawn.sum(axis=1), np.tile(pooled.sum(axis=0), (50, 1)))


def test_every_row_is_equally_likely_in_every_group():
    pooled = np.array([[6, 2, 1, 1], [0, 3, 4, 3], [1, 0, 5, 4]])
    drawn = _records(pooled, 20_000, _generator(3, 0))
    size, kinds = pooled.sum(axis=1), pooled.sum(axis=0)
    expected = np.outer(size, kinds) / pooled.sum()
    spread = drawn.std(axis=0) / np.sqrt(len(drawn))
    # 12 means, five standard errors each: a false alarm in fewer than 1 of 10^5 seeds.
    assert (np.abs(drawn.mean(axis=0) - expected) < 5 * spread).all()


# -- by their own false alarms --------------------------------------------------------------------


def share_of_small(p_values, level):
    return sum(p <= level for p in p_values)


@pytest.mark.parametrize("groups", [2, 25])
def test_without_an_effect_p_values_are_uniform_where_clients_are_exchanged(groups):
    rng = np.random.default_rng(groups)
    p_values = [
        nulls(random_clients(rng, clients=100, groups=groups), permutations=99, stream=repeat)[
            PARITY
        ].p_value
        for repeat in range(400)
    ]
    # p <= level in a share `level` of data sets, less a little for ties. Each bound is crossed by
    # chance with a probability below 10^-4, six times.
    for level in (0.05, 0.2, 0.5):
        low, high = binom.ppf([1e-4, 1 - 1e-4], len(p_values), [0.7 * level, level])
        assert low <= share_of_small(p_values, level) <= high


def test_without_an_effect_p_values_are_uniform_where_rows_are_exchanged():
    rng = np.random.default_rng(5)
    p_values = []
    for repeat in range(400):
        counts = rng.multinomial(1, [0.3, 0.2, 0.3, 0.2], size=(60, 8)).astype(np.int64)
        p_values.append(nulls(counts, permutations=99, stream=repeat)[PARITY].p_value)
    for level in (0.05, 0.2, 0.5):
        low, high = binom.ppf([1e-4, 1 - 1e-4], len(p_values), [0.7 * level, level])
        assert low <= share_of_small(p_values, level) <= high


def test_rows_of_a_client_stay_together():
    # All 30 rows of a client are alike. Exchanging them row by row calls chance a gap in about 62 %
    # of data sets; exchanging clients does in fewer than 5 %, since ties count as at least as wide.
    rng = np.random.default_rng(6)
    by_client, by_row = [], []
    for repeat in range(300):
        counts = random_clients(rng, clients=40, groups=2, alike=True)
        by_client.append(nulls(counts, permutations=99, stream=repeat)[PARITY].p_value)
        pooled, everyone = counts.sum(axis=0), np.ones(2, dtype=bool)
        drawn = gap_values(_records(pooled, 99, _generator(3, repeat)), np.ones((99, 2), bool))
        as_wide = drawn[:, 0] >= gap_values(pooled, everyone)[0] - 1e-12
        by_row.append((1 + as_wide.sum()) / 100)
    # False alarms: fewer than 1 of 10^6 seeds each.
    assert share_of_small(by_client, 0.05) <= binom.ppf(1 - 1e-6, 300, 0.05)
    assert share_of_small(by_row, 0.05) >= binom.ppf(1e-6, 300, 0.62)


def test_the_mean_is_the_gap_that_many_groups_have_by_chance():
    # Fifty groups of one rate: the largest difference is far from 0, on average as far as stated.
    rng = np.random.default_rng(7)
    observed, stated = [], []
    for repeat in range(60):
        counts = random_clients(rng, clients=200, groups=50, rows=10)
        pooled = counts.sum(axis=0)
        observed.append(gaps(pooled, disclosed_counts(pooled, minimum_group_size=5))[0][0].value)
        stated.append(nulls(counts, permutations=99, stream=repeat)[PARITY].mean)
    difference = np.array(observed) - np.array(stated)
    assert np.mean(observed) > 0.25
    # Five standard errors: a false alarm in fewer than 1 of 10^6 seeds.
    assert abs(difference.mean()) < 5 * difference.std() / np.sqrt(len(difference))


def test_a_planted_gap_is_found():
    rng = np.random.default_rng(8)
    counts = random_clients(rng, clients=60, groups=2)
    counts[::2, 0] = (14, 14, 1, 1)
    found = nulls(counts)
    assert found[PARITY].p_value == 1 / 1001
    assert found[PARITY].tail < 0.2
    ratio = found["demographic_parity_ratio"]
    assert ratio.p_value == 1 / 1001
    assert 0.6 < ratio.tail < ratio.mean < 1


# -- what is disclosed, and what is not
# ----------------------------------------------------------------


def test_the_same_seed_gives_the_same_nulls_and_another_stream_others():
    counts = random_clients(np.random.default_rng(1), clients=60, groups=3)
    assert nulls(counts) == nulls(counts)
    assert nulls(counts) != nulls(counts, stream=1)
    assert nulls(counts) != nulls(counts, seed=4)


def test_hidden_groups_leave_no_trace():
    counts = random_clients(np.random.default_rng(2), clients=80, groups=4, rows=10)
    counts[:, 2:] = 0
    one, other = counts.copy(), counts.copy()
    one[2, 2], one[3, 3] = (3, 0, 0, 0), (0, 0, 4, 0)
    other[2, 2], other[3, 3] = (0, 2, 1, 1), (4, 0, 0, 3)
    # Fewer than 30 rows in both: hidden, and nothing of them is in the nulls of the others.
    assert nulls(one, minimum_group_size=30) == nulls(other, minimum_group_size=30)


def test_few_clients_are_not_exchanged_but_their_rows_may_be():
    rng = np.random.default_rng(3)
    counts = random_clients(rng, clients=19, groups=2)
    assert nulls(counts) == dict.fromkeys(
        METRICS, "19 clients have rows in the groups shown; exchanging clients needs 20"
    )
    counts[0, 1] = counts[0, 0]
    assert nulls(counts)[PARITY].unit == "record"


def test_without_a_gap_there_is_nothing_to_compare():
    counts = random_clients(np.random.default_rng(4), clients=40, groups=2)
    assert set(nulls(counts, minimum_group_size=10_000).values()) == {NO_GAP}
    counts[..., :2] = 0
    found = nulls(counts)
    assert found["demographic_parity_ratio"] == NO_GAP
    pooled = counts.sum(axis=0)
    (figures,) = gaps(pooled, disclosed_counts(pooled, minimum_group_size=5))
    assert figures[1].reason == ZERO_OVER_ZERO
    assert found[PARITY].p_value == 1


def test_rates_that_are_mostly_undefined_have_no_null():
    counts = random_clients(np.random.default_rng(4), clients=40, groups=8)
    counts[..., 0] = counts[..., 3] = 0
    for group in range(8):
        counts[group, group, 0] = 1  # eight rows with the favourable outcome, one in each group
    found = nulls(counts)["equal_opportunity_difference"]
    assert isinstance(found, str)
    assert found.startswith("undefined in ")
    assert found.endswith("at most 5% may be")


def test_gaps_are_taken_against_the_reference_group():
    counts = random_clients(np.random.default_rng(9), clients=90, groups=3)
    against = nulls(counts, reference=1)
    assert against[PARITY].mean < nulls(counts)[PARITY].mean
    hidden = nulls(counts * [[[0], [1], [1]]], reference=0)
    assert set(hidden.values()) == {NO_GAP}


# -- losses ---------------------------------------------------------------------------------------


def scores_of(counts, rng):
    rows = counts.sum(axis=-1)
    return GroupScores(rows=rows, correct=None, loss=rows * rng.random(rows.shape))


def test_losses_are_exchanged_with_their_clients():
    rng = np.random.default_rng(10)
    counts = random_clients(rng, clients=60, groups=2)
    scores = scores_of(counts, rng)
    found = nulls_of_scores(scores, root_mean=True)
    assert found["accuracy_difference"] == NO_GAP
    assert found["loss_difference"].unit == "client"
    scores.loss[::2] += 10 * scores.rows[::2]
    raised = nulls_of_scores(scores, root_mean=True)
    assert raised["loss_difference"].p_value == raised["loss_ratio"].p_value == 1 / 1001


def test_sums_of_losses_cannot_be_exchanged_row_by_row():
    rng = np.random.default_rng(11)
    counts = rng.poisson(2, size=(40, 2, 4))
    scores = scores_of(counts, rng)
    found = nulls_of_scores(scores, root_mean=False)
    assert set(found) == set(SCORE_METRICS)
    assert all("only sums of their losses" in reason for reason in found.values())


def test_whether_rows_are_right_is_exchanged_row_by_row():
    """Against 2,000 exchanges of the rows themselves; fixed seeds, so it cannot fail by chance."""
    rng = np.random.default_rng(12)
    rows = rng.integers(20, 60, (30, 3))
    correct = rng.binomial(rows, 0.8)
    scores = GroupScores(rows=rows, correct=correct, loss=rng.random(rows.shape))
    found = nulls_of_scores(scores, root_mean=False)
    null = found["accuracy_difference"]

    of_group, right = rows.sum(axis=0), correct.sum(axis=0)
    group = np.repeat(np.arange(3), of_group)
    hit = np.concatenate([np.arange(size) < right[one] for one, size in enumerate(of_group)])
    spreads = np.array(
        [np.ptp(np.bincount(rng.permutation(group), weights=hit) / of_group) for _ in range(2000)]
    )
    assert null.unit == "record"
    assert null.mean == pytest.approx(spreads.mean(), rel=0.05)
    assert null.tail == pytest.approx(np.quantile(spreads, 0.95), rel=0.08)
    observed = np.ptp(right / of_group)
    assert null.p_value == pytest.approx((spreads >= observed - 1e-12).mean(), abs=0.05)
    assert all("only sums of their losses" in found[name] for name in SCORE_METRICS[1:])
