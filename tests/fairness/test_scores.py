"""Loss and accuracy by group: Fairlearn's answers, and a reason where there is none."""

import fairlearn.metrics
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score

from fedaudit.fairness.gaps import GroupScores, group_scores, score_gaps
from fedaudit.fairness.intervals import (
    NOT_ESTIMABLE,
    Interval,
    rate_intervals,
    score_intervals,
)
from fedaudit.spec.metrics import SCORE_METRICS
from tests.fairness.disclosures import disclosed_clients, disclosed_scores


def scores_of(group, right, loss, *, groups, clients=1):
    """Rows one by one as sums of clients; rows are dealt to clients in turn."""
    rows = np.zeros((clients, groups), dtype=np.int64)
    correct, losses = rows.copy(), rows.astype(float)
    for place, (one, hit, value) in enumerate(zip(group, right, loss, strict=True)):
        rows[place % clients, one] += 1
        correct[place % clients, one] += hit
        losses[place % clients, one] += value
    return GroupScores(rows, correct, losses)


def figures(scores, *, root_mean=False, **changes):
    found = score_gaps(scores, disclosed_scores(scores, **changes), root_mean=root_mean)
    assert [figure.metric for figure in found] == list(SCORE_METRICS)
    return {figure.metric: figure for figure in found}


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), groups=st.integers(2, 6), root_mean=st.booleans())
def test_gaps_are_those_of_fairlearns_metric_frame(seed, groups, root_mean):
    random = np.random.default_rng(seed)
    group = np.concatenate([np.arange(groups), random.integers(0, groups, 60)])
    true, predicted = random.integers(0, 3, (2, len(group)))
    loss = random.exponential(size=len(group)) * (1 + group)

    def mean_loss(_true, own):
        return np.sqrt(own.mean()) if root_mean else own.mean()

    accuracy = fairlearn.metrics.MetricFrame(
        metrics=accuracy_score, y_true=true, y_pred=predicted, sensitive_features=group
    )
    losses = fairlearn.metrics.MetricFrame(
        metrics=mean_loss, y_true=true, y_pred=loss, sensitive_features=group
    )
    scores = scores_of(group, true == predicted, loss, groups=groups, clients=7)
    found = figures(scores, root_mean=root_mean)
    measured = group_scores(scores.sums.sum(axis=0), root_mean=root_mean)
    np.testing.assert_allclose(measured[0], accuracy.by_group, rtol=1e-12)
    np.testing.assert_allclose(measured[1], losses.by_group, rtol=1e-12)
    assert found["accuracy_difference"].value == pytest.approx(
        accuracy.difference(method="between_groups"), abs=1e-12
    )
    assert found["loss_difference"].value == pytest.approx(
        losses.difference(method="between_groups"), rel=1e-9
    )
    assert found["loss_ratio"].value == pytest.approx(
        losses.ratio(method="between_groups"), rel=1e-12
    )


def test_a_worked_example_with_and_without_a_root():
    scores = GroupScores(np.array([[4, 10]]), np.array([[3, 5]]), np.array([[4.0, 40.0]]))
    plain, root_mean = figures(scores), figures(scores, root_mean=True)
    assert plain["accuracy_difference"].value == 0.25
    assert (plain["loss_difference"].value, plain["loss_ratio"].value) == (3.0, 0.25)
    assert (root_mean["loss_difference"].value, root_mean["loss_ratio"].value) == (1.0, 0.5)


def test_a_number_has_no_accuracy_and_still_has_losses():
    found = figures(GroupScores(np.array([[5, 5]]), None, np.array([[1.0, 2.0]])))
    assert found["accuracy_difference"].value is None
    assert "no accuracy" in found["accuracy_difference"].reason
    assert found["loss_ratio"].value == 0.5


def test_losses_that_are_not_finite_or_all_zero_have_a_reason():
    rows, right = np.array([[5, 5]]), np.array([[1, 2]])
    for overflown in (np.inf, np.nan):
        found = figures(GroupScores(rows, right, np.array([[1.0, overflown]])))
        assert found["accuracy_difference"].value == pytest.approx(0.2)
        for name in ("loss_difference", "loss_ratio"):
            assert (found[name].value, found[name].reason) == (
                None,
                "the loss of a group is not finite",
            )
    perfect = figures(GroupScores(rows, right, np.zeros((1, 2))))
    assert perfect["loss_difference"].value == 0
    assert perfect["loss_ratio"].value is None
    assert "0/0" in perfect["loss_ratio"].reason


def test_small_groups_are_left_out_as_in_the_rates():
    scores = GroupScores(
        np.array([[40, 50, 20, 10]]), np.array([[40, 25, 0, 0]]), np.array([[4.0, 5.0, 90.0, 90.0]])
    )
    found = figures(scores, minimum_group_size=30)
    assert found["accuracy_difference"].value == 0.5
    assert "2 of 4 groups left out" in found["accuracy_difference"].reason
    alone = figures(scores, minimum_group_size=45)
    assert all(figure.value is None for figure in alone.values())
    assert all("fewer than two groups" in figure.reason for figure in alone.values())


def test_a_reference_group_takes_the_place_of_the_extremes():
    scores = GroupScores(
        np.array([[10, 10, 10]]), np.array([[5, 8, 1]]), np.array([[10.0, 5.0, 20.0]])
    )
    found = figures(scores, reference=0)
    assert found["accuracy_difference"].value == pytest.approx(0.4)
    assert (found["loss_difference"].value, found["loss_ratio"].value) == (1.0, 0.5)
    with pytest.raises(ValueError, match="is no group"):
        figures(scores, reference=3)


def drawn(seed, *, clients=40):
    """Counts of a binary classifier and the scores that say the same of it."""
    random = np.random.default_rng(seed)
    counts = random.integers(0, 6, (clients, 3, 4))
    rows, correct = counts.sum(-1), counts[..., [0, 2]].sum(-1)
    return counts, GroupScores(rows, correct, random.exponential(size=rows.shape) * rows)


def test_an_accuracy_has_the_interval_of_a_rate_of_the_same_rows():
    """Of everyone's truth favourable, accuracy is the true positive rate: the intervals agree."""
    counts, _ = drawn(1)
    counts[..., [1, 2]] = 0
    scores = GroupScores(counts.sum(-1), counts[..., 0], np.zeros(counts.shape[:-1]))
    rates = rate_intervals(counts, disclosed_clients(counts), level=0.9)
    found = score_intervals(scores, disclosed_scores(scores), root_mean=False, level=0.9)
    assert found["accuracy_difference"] == rates["equal_opportunity_difference"]


@pytest.mark.parametrize("root_mean", [True, False])
def test_intervals_hold_the_gap_of_losses(root_mean):
    _, scores = drawn(2)
    disclosure = disclosed_scores(scores)
    found = score_intervals(scores, disclosure, root_mean=root_mean, level=0.95)
    for figure in score_gaps(scores, disclosure, root_mean=root_mean):
        interval = found[figure.metric]
        assert interval.low < figure.value < interval.high


def test_losses_of_one_client_or_all_alike_have_no_interval():
    rows = np.full((9, 2), 20)
    for scores in (drawn(3, clients=1)[1], GroupScores(rows, None, rows * 0.5)):
        disclosure = disclosed_scores(scores)
        found = score_intervals(scores, disclosure, root_mean=False, level=0.95)
        assert found["loss_ratio"] == Interval(None, None, NOT_ESTIMABLE)
