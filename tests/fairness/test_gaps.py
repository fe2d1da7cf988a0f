"""Gaps between groups: Fairlearn's answers where it has one, and a reason where it should not."""

import fairlearn.metrics
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedaudit.fairness.gaps import gaps
from fedaudit.spec.metrics import METRICS
from tests.fairness.disclosures import disclosed, disclosed_counts

Counts = list[list[int]]
FAIRLEARNS = [name for name in METRICS if hasattr(fairlearn.metrics, name)]


def figures(counts: Counts, *, minimum: int = 1, reference: int | None = None):
    block = np.array([counts], dtype=np.int64)
    disclosure = disclosed_counts(block, minimum_group_size=minimum, reference=reference)
    return {figure.metric: figure for figure in gaps(block, disclosure)[0]}


def rows(counts: Counts):
    """True labels, predictions and groups with these counts of each kind."""
    kinds = ((1, 1), (0, 1), (0, 0), (1, 0))  # true, predicted: tp, fp, tn, fn
    stated = [
        (true, predicted, group)
        for group, of_group in enumerate(counts)
        for (true, predicted), times in zip(kinds, of_group, strict=True)
        for _ in range(times)
    ]
    return (np.array(column) for column in zip(*stated, strict=True))


@st.composite
def defined_counts(draw: st.DrawFn) -> Counts:
    """Groups that all have rows with and without the favourable outcome."""
    group = st.tuples(*[st.integers(0, 9)] * 4).filter(
        lambda one: one[0] + one[3] > 0 and one[1] + one[2] > 0
    )
    return [list(one) for one in draw(st.lists(group, min_size=2, max_size=5))]


@settings(max_examples=40, deadline=None)
@given(defined_counts())
def test_every_defined_figure_is_fairlearns_to_the_last_digit(counts):
    true, predicted, group = rows(counts)
    found = figures(counts)
    for metric in FAIRLEARNS:
        figure = found[metric]
        theirs = getattr(fairlearn.metrics, metric)(true, predicted, sensitive_features=group)
        if figure.value is None:
            assert metric.endswith("_ratio")
            assert "0/0" in figure.reason
        else:
            assert figure.value == theirs
            assert figure.reason is None


@settings(max_examples=100, deadline=None)
@given(defined_counts())
def test_a_ratio_is_missing_only_where_all_rates_compared_are_zero(counts):
    table = np.array(counts)
    found = figures(counts)
    no_selection = table[:, [0, 1]].sum() == 0
    no_hits, no_false_alarms = table[:, 0].sum() == 0, table[:, 1].sum() == 0
    assert (found["demographic_parity_ratio"].value is None) == no_selection
    assert (found["equal_opportunity_ratio"].value is None) == no_hits
    assert (found["equalized_odds_ratio"].value is None) == (no_hits or no_false_alarms)


def test_a_worked_example():
    found = figures([[30, 10, 40, 20], [10, 5, 45, 40]])
    # Selection 40/100 and 15/100; true positives 30/50 and 10/50; false positives 10/50 and 5/50.
    assert found["demographic_parity_difference"].value == pytest.approx(0.25)
    assert found["demographic_parity_ratio"].value == pytest.approx(0.375)
    assert found["equal_opportunity_difference"].value == pytest.approx(0.4)
    assert found["equal_opportunity_ratio"].value == pytest.approx(1 / 3)
    assert found["equalized_odds_difference"].value == pytest.approx(0.4)
    assert found["equalized_odds_ratio"].value == pytest.approx(1 / 3)


def test_a_group_without_positives_has_no_true_positive_rate():
    perfect = [[20, 0, 20, 0], [0, 0, 40, 0]]
    true, predicted, group = rows(perfect)
    equal_opportunity = fairlearn.metrics.equal_opportunity_difference
    # A perfect classifier, and Fairlearn's gap is the largest there is.
    assert equal_opportunity(true, predicted, sensitive_features=group) == 1.0
    found = figures(perfect)
    for metric in list(METRICS)[2:]:
        assert found[metric].value is None
        assert "1 of the groups compared lacks" in found[metric].reason
    assert found["demographic_parity_difference"].value == 0.5


def test_a_group_without_negatives_has_no_false_positive_rate():
    found = figures([[20, 0, 20, 0], [30, 0, 0, 10]])
    assert found["equalized_odds_difference"].value is None
    assert found["equal_opportunity_difference"].value == 0.25


def test_one_group_alone_is_not_fair():
    for counts in ([[5, 1, 5, 1]], [[5, 1, 5, 1], [0, 0, 0, 0]]):
        for figure in figures(counts).values():
            assert figure.value is None
            assert "only one group has scored rows" in figure.reason


def test_without_rows_there_is_nothing_to_compare():
    assert figures([[0] * 4, [0] * 4])["equalized_odds_ratio"].reason == "no row was scored"


def test_small_groups_are_left_out_and_counted():
    counts = [[20, 5, 20, 5], [10, 10, 20, 10], [15, 0, 0, 0], [0, 15, 0, 0]]
    found = figures(counts, minimum=30)
    assert (
        found["equalized_odds_difference"].value
        == figures(counts[:2])["equalized_odds_difference"].value
    )
    assert "2 of 4 groups left out" in found["equalized_odds_difference"].reason


def test_where_fewer_than_two_groups_are_left_there_is_no_gap():
    found = figures([[20, 5, 20, 5], [9, 1, 0, 0]], minimum=30)
    for figure in found.values():
        assert figure.value is None
        assert "fewer than two groups are left" in figure.reason


def test_a_reference_group_takes_the_place_of_the_extremes():
    # Selection rates 0.5, 0.8 and 0.1.
    counts = [[3, 2, 3, 2], [4, 4, 1, 1], [1, 0, 5, 4]]
    apart = figures(counts)
    against = figures(counts, reference=0)
    assert apart["demographic_parity_difference"].value == pytest.approx(0.7)
    assert against["demographic_parity_difference"].value == pytest.approx(0.4)
    assert against["demographic_parity_ratio"].value == pytest.approx(0.2)
    with pytest.raises(ValueError, match="reference 3 is no group"):
        figures(counts, reference=3)


@settings(max_examples=100, deadline=None)
@given(defined_counts())
def test_between_two_groups_the_reference_makes_no_difference(counts):
    for metric, figure in figures(counts[:2]).items():
        assert figures(counts[:2], reference=1)[metric] == figure


def test_a_hidden_reference_group_leaves_no_figure():
    counts = [[5, 1, 3, 1], [20, 5, 20, 5], [20, 5, 20, 5], [6, 6, 6, 6]]
    for figure in figures(counts, minimum=30, reference=0).values():
        assert figure.value is None
        assert "the reference group is left out" in figure.reason


def test_a_reference_rate_of_zero_has_a_ratio_unless_all_are_zero():
    some = figures([[0, 0, 5, 5], [2, 2, 5, 5]], reference=0)
    assert some["demographic_parity_ratio"].value == 0.0
    none = figures([[0, 0, 5, 5], [0, 0, 5, 5]], reference=0)
    assert none["demographic_parity_ratio"].value is None
    assert none["demographic_parity_difference"].value == 0.0


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_a_block_of_rounds_gives_what_each_round_gives(seed):
    counts = np.random.default_rng(seed).integers(0, 15, size=(6, 4, 4))
    block = gaps(counts, disclosed_counts(counts, minimum_group_size=20, reference=1))
    for of_round, figures_of_round in zip(counts, block, strict=True):
        alone = gaps(of_round, disclosed_counts(of_round, minimum_group_size=20, reference=1))
        assert alone == [figures_of_round]


def test_counts_must_fit_the_groups():
    with pytest.raises(ValueError, match=r"counts have shape \(3, 4\) for 2 groups"):
        gaps(np.zeros((3, 4), dtype=np.int64), disclosed([0, 0]))
