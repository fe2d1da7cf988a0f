"""AUC, its interval and calibration, beside scikit-learn."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.calibration import calibration_curve
from sklearn.metrics import brier_score_loss, roc_auc_score

from fedaudit.fairness.ranking import BINS, ScoredOutcomes, order_by_score, rank_rows
from tests.fairness.formulas import share_ends

ROWS = st.lists(
    st.tuples(st.integers(0, 8), st.booleans(), st.integers(0, 2), st.integers(0, 3)),
    min_size=10,
    max_size=60,
)


def scored(score, outcome, *, probability=None) -> ScoredOutcomes:
    return ScoredOutcomes(
        score=np.asarray(score, dtype=np.float32),
        probability=probability,
        outcome=np.asarray(outcome, dtype=np.bool_),
    )


def auc(score, outcome) -> float:
    """NaN with fewer than five rows of either outcome."""
    few = min(sum(outcome), len(outcome) - sum(outcome)) < 5
    return np.nan if few else roc_auc_score(outcome, score)


@settings(max_examples=200, deadline=None)
@given(ROWS)
def test_figures_are_those_of_scikit_learn_ties_included(rows):
    score, outcome, group, client = (np.array(column) for column in zip(*rows, strict=True))
    probability = score / 8
    found = rank_rows(
        scored(score, outcome, probability=probability),
        client=client,
        hypothesis=np.zeros(len(rows), dtype=np.int64),
        groups={"group": (4, np.where(group == 2, -1, group)), "none": (3, 0 * group - 1)},
    )
    expected = auc(score, outcome)
    assert (found.ordering is None) == np.isnan(expected)
    if found.ordering is not None:
        assert found.ordering.auc == pytest.approx(expected)
    by_group = [auc(score[group == one], outcome[group == one]) for one in (0, 1)]
    assert found.by_group["group"] == pytest.approx([*by_group, np.nan, np.nan], nan_ok=True)
    assert np.isnan(found.by_group["none"]).all()
    assert found.brier == pytest.approx(brier_score_loss(outcome, probability))
    assert found.base_rate == outcome.mean()
    frequencies, means = calibration_curve(outcome, probability, n_bins=BINS)
    # The places of eighths in tenths are never at an edge but for 0, 0.5 and 1.
    counts = np.bincount(np.minimum(score * BINS // 8, BINS - 1).astype(int))
    edges = np.isin(score, [4])
    if not edges.any():  # scikit-learn puts an edge into the bin below
        expected = np.average(np.abs(frequencies - means), weights=counts[counts > 0])
        assert found.expected_calibration_error == pytest.approx(expected)


def test_one_answer_for_each_hypothesis_orders_nothing_within_it():
    random = np.random.default_rng(3)
    client = np.repeat(np.arange(40), 20)
    hypothesis = np.repeat(random.integers(0, 2, 40), 20)
    outcome = random.random(800) < 0.2 + 0.6 * hypothesis
    found = rank_rows(scored(hypothesis, outcome), client=client, hypothesis=hypothesis, groups={})
    assert found.ordering.auc > 0.7
    assert found.within.auc == 0.5
    low, high = found.within.interval(0.95)
    assert low < 0.5 < high


def drawn(random, *, clients, rows, separation, between):
    """Rows of clients whose scores and outcomes have something in common."""
    client = np.repeat(np.arange(clients), rows)
    outcome = random.random(len(client)) < 0.1 + 0.4 * random.random(clients)[client]
    score = separation * outcome + random.normal(0, 1, len(client))
    return client, outcome, score + between * random.normal(0, 1, clients)[client]


@pytest.mark.parametrize(
    ("clients", "rows", "separation", "between"),
    [(200, 1, 1.4, 0.0), (40, 20, 1.4, 0.7), (30, 30, 0.0, 0.7), (12, 25, 1.4, 0.7)],
)
def test_the_interval_covers_the_auc_of_all_clients(clients, rows, separation, between):
    kind = {"separation": separation, "between": between}
    _, outcome, score = drawn(np.random.default_rng(1), clients=40_000, rows=20, **kind)
    truth, covered = roc_auc_score(outcome, score), 0
    for seed in range(400):
        random = np.random.default_rng(100 + seed)
        own, came, scores = drawn(random, clients=clients, rows=rows, **kind)
        low, high = order_by_score(scored(scores, came), own).interval(0.95)
        covered += low <= truth <= high
    # At 95 %, fewer than 365 of 400 come about in fewer than 1 of 1,000 repetitions.
    assert covered >= 365


def test_a_perfect_order_of_few_clients_is_not_certain():
    outcome = np.repeat([False, True], 10)
    client = np.tile(np.arange(10), 2)
    found = order_by_score(scored(outcome, outcome), client)
    low, high = found.interval(0.95)
    assert (found.auc, high) == (1.0, 1.0)
    assert 0.5 < low < 0.8
    alone = order_by_score(scored(outcome, outcome), np.zeros(20, dtype=np.int64))
    assert alone.interval(0.95)[0] < 0.5


@pytest.mark.parametrize("positives", [5, 12, 30])
def test_an_order_by_chance_varies_as_the_share_of_so_many_rows(positives):
    """Mann and Whitney (1947): the AUC by chance has the variance (n + m + 1) / (12 n m)."""
    outcome = np.arange(40) < positives
    found = order_by_score(scored(np.arange(40) % 7, outcome), np.arange(40))
    assert 0.25 / found.rows == pytest.approx(41 / (12 * positives * (40 - positives)))


@settings(max_examples=100, deadline=None)
@given(ROWS, st.sampled_from([0.8, 0.95]))
def test_an_ordering_is_that_of_all_pairs(rows, level):
    """DeLong et al. (1988), with strata, whose rows are not compared with each other."""
    score, outcome, stratum, client = (np.array(column) for column in zip(*rows, strict=True))
    found = order_by_score(scored(score, outcome), client, stratum)
    places = range(len(rows))
    pairs = [
        (one, other, np.sign(score[one] - score[other]) / 2 + 0.5)
        for one, other in product(places, places)
        if outcome[one] and not outcome[other] and stratum[one] == stratum[other]
    ]
    if min(outcome.sum(), (~outcome).sum()) < 5 or not pairs:
        assert found is None
        return
    auc = np.mean([won for *_, won in pairs])
    moved = np.zeros(client.max() + 1)
    for one, other, won in pairs:
        moved[client[[one]]] += (won - auc) / len(pairs)
        moved[client[[other]]] += (won - auc) / len(pairs)
    assert found.auc == pytest.approx(auc)
    assert found.moved == pytest.approx(moved)
    held = [np.bincount(client[kind]) for kind in (outcome, ~outcome)]
    worth = min(own.sum() ** 2 / (own**2).sum() for own in held)
    assert found.worth == pytest.approx(worth)
    ends = share_ends(
        auc,
        max(found.rows, worth),
        variance=worth / (worth - 1) * (moved**2).sum() if worth > 1 else 0.0,
        worth=worth,
        share=1 - level,
    )
    assert found.interval(level) == pytest.approx(ends)
