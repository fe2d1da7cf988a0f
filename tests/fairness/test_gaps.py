"""Counts, rates, gaps and scores."""

from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from api.schemas.experiment_tables import GroupLine
from fedaudit.fairness.gaps import (
    GroupScores,
    gap_size,
    gap_words,
    gaps,
    group_rates,
    group_scores,
    is_below_four_fifths,
    lacking,
    rate_gaps,
    score_gaps,
)
from fedaudit.fairness.intervals import NOT_ESTIMABLE, score_intervals
from fedaudit.reports.sections.fairness import GroupSection
from fedaudit.spec.gates import FairnessFigure, Gate
from fedaudit.spec.metrics import FAIRNESS_FIGURES, FAMILIES, METRICS, RATES, SCORE_METRICS
from tests.fairness.disclosures import disclosed_counts, disclosed_scores

counts_of_groups = st.lists(
    st.lists(st.integers(0, 9), min_size=4, max_size=4), min_size=2, max_size=5
)


@settings(max_examples=100, deadline=None)
@given(counts_of_groups)
def test_a_gap_is_the_worst_of_its_familys_rates(counts):
    rates = group_rates(np.array(counts))
    everyone = np.ones(len(counts), dtype=bool)
    named = dict(zip(METRICS, rate_gaps(rates, everyone), strict=True))
    for family in FAMILIES:
        own = rates[[list(RATES).index(name) for name in family.rates]]
        assert lacking(rates, family.name, everyone) == np.isnan(own).any(axis=0).sum()
        with np.errstate(invalid="ignore"):
            difference = (own.max(axis=1) - own.min(axis=1)).max()
            ratio = (own.min(axis=1) / own.max(axis=1)).min()
        np.testing.assert_equal(named[f"{family.name}_difference"], difference)
        np.testing.assert_equal(named[f"{family.name}_ratio"], ratio)


def test_every_rate_is_a_share_and_a_figure_of_each_group():
    for rate in RATES.values():
        assert set(rate.numerator) <= set(rate.denominator)
        assert {rate.name} <= GroupSection.model_fields.keys() & GroupLine.model_fields.keys()


def test_a_gate_may_name_every_figure_and_its_schema_lists_them():
    assert get_args(FairnessFigure) == FAIRNESS_FIGURES
    assert set(FAIRNESS_FIGURES) < set(Gate.model_json_schema()["properties"]["figure"]["enum"])
    for figure in FAIRNESS_FIGURES:
        assert Gate(figure=figure, op="le", value=0.5, attribute="sex").compares_groups
    with pytest.raises(ValueError, match="'equalized_odds_difference'"):
        Gate(figure="equalised_odds_difference", op="le", value=0.5)


Counts = list[list[int]]
ODDS = "equalized_odds_difference"


def figures(counts: Counts, *, minimum: int = 1, reference: int | None = None):
    block = np.array([counts], dtype=np.int64)
    disclosure = disclosed_counts(block, minimum_group_size=minimum, reference=reference)
    return {figure.metric: figure for figure in gaps(block, disclosure)[0]}


@st.composite
def defined_counts(draw: st.DrawFn) -> Counts:
    """Groups that all have rows with and without the favourable outcome."""
    group = st.tuples(*[st.integers(0, 9)] * 4).filter(
        lambda one: one[0] + one[3] > 0 and one[1] + one[2] > 0
    )
    return [list(one) for one in draw(st.lists(group, min_size=2, max_size=5))]


def test_a_group_without_positives_has_no_true_positive_rate():
    """Of a perfect classifier, whose gap Fairlearn calls the largest there is."""
    found = figures([[20, 0, 20, 0], [0, 0, 40, 0]])
    for metric in (name for name in METRICS if name.startswith("equal")):
        assert found[metric].value is None
        assert "1 of the groups compared lacks" in found[metric].reason
    assert found["demographic_parity_difference"].value == 0.5


@pytest.mark.parametrize(
    ("counts", "options", "why"),
    [
        ([[0] * 4] * 2, {}, "no row was scored"),
        ([[5, 1, 5, 1]], {}, "only one group has scored rows"),
        ([[5, 1, 5, 1], [0] * 4], {}, "only one group has scored rows"),
        ([[20, 5, 20, 5], [9, 1, 0, 0]], {"minimum": 30}, "fewer than two groups are left"),
        ([[20, 5, 20, 5], [9, 1, 0, 0]], {"minimum": 30}, "refuses beside a report that counted"),
        (
            [[5, 1, 3, 1], *[[20, 5, 20, 5]] * 2, [6] * 4],
            {"minimum": 30, "reference": 0},
            "the reference group is left out",
        ),
    ],
)
def test_where_nothing_can_be_compared_there_is_a_reason(counts, options, why):
    for figure in figures(counts, **options).values():
        assert figure.value is None
        assert why in figure.reason


def test_small_groups_are_left_out_and_counted():
    counts = [[20, 5, 20, 5], [10, 10, 20, 10], [15, 0, 0, 0], [0, 15, 0, 0]]
    found, large = (figures(one, minimum=30)[ODDS] for one in (counts, counts[:2]))
    assert found.value == large.value
    assert "2 of 4 groups left out" in found.reason


def test_a_reference_group_takes_the_place_of_the_extremes():
    # Selection rates 0.5, 0.8 and 0.1.
    counts = [[3, 2, 3, 2], [4, 4, 1, 1], [1, 0, 5, 4]]
    apart, against = figures(counts), figures(counts, reference=0)
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


@pytest.mark.parametrize(
    ("metric", "value", "interval", "words"),
    [
        ("demographic_parity_difference", 0.268, (0.2, 0.3), "27 percentage points (wide) between"),
        ("equalized_odds_difference", 0.05, (0.01, 0.1), "5 percentage points (narrow)"),
        ("equalized_odds_difference", 0.1, (0.0, 0.1), "two groups: its interval reaches 0; no"),
        ("equalized_odds_difference", 0.02, (0, 1), "0 and goes up to 1, which is wide; no"),
        ("equalized_odds_difference", 0.05, None, "(narrow) between two groups; no"),
        ("demographic_parity_ratio", 0.38, (0.3, 0.5), "(its interval 0.3 to 0.5): below four"),
        ("demographic_parity_ratio", 0.9, (0.7, 1), "at least four fifths, though not for sure,"),
        ("demographic_parity_ratio", 0.8 - 1e-12, None, "at least four fifths, the threshold for"),
        ("equalized_odds_ratio", 0.5, None, ""),
        ("loss_difference", 2.0, (1.0, 3.0), ""),
    ],
)
def test_a_gap_has_its_size_its_chance_and_its_standard(metric, value, interval, words):
    said = gap_words(metric, value, interval=interval)
    assert words in said
    assert bool(said) == bool(words)
    assert gap_size(metric, value) in said
    for adjective in ("small", "large", "fair", "acceptable"):  # it judges nothing
        assert f" {adjective} " not in said.replace("too large", "")


def test_a_rounding_error_is_not_below_four_fifths() -> None:
    assert not is_below_four_fifths(4 / 5 - 1e-16)
    assert is_below_four_fifths(0.799)


def scores_of(group, right, loss, *, groups, clients=1):
    """Rows one by one as sums of clients; rows are dealt to clients in turn."""
    rows = np.zeros((clients, groups), dtype=np.int64)
    correct, losses = rows.copy(), rows.astype(float)
    for place, (one, hit, value) in enumerate(zip(group, right, loss, strict=True)):
        rows[place % clients, one] += 1
        correct[place % clients, one] += hit
        losses[place % clients, one] += value
    return GroupScores(rows, correct, losses)


def score_figures(scores, *, root_mean=False, **changes):
    found = score_gaps(scores, disclosed_scores(scores, **changes), root_mean=root_mean)
    assert [figure.metric for figure in found] == list(SCORE_METRICS)
    return {figure.metric: figure for figure in found}


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), groups=st.integers(2, 6), root_mean=st.booleans())
def test_gaps_of_scores_are_those_of_the_groups_means(seed, groups, root_mean):
    random = np.random.default_rng(seed)
    group = np.concatenate([np.arange(groups), random.integers(0, groups, 60)])
    right = random.random(len(group)) < 0.4
    loss = random.exponential(size=len(group)) * (1 + group)
    accuracy, losses = (
        np.array([column[group == one].mean() for one in range(groups)]) for column in (right, loss)
    )
    losses = np.sqrt(losses) if root_mean else losses
    scores = scores_of(group, right, loss, groups=groups, clients=7)
    measured = group_scores(scores.sums.sum(axis=0), root_mean=root_mean)
    np.testing.assert_allclose(measured[:2], [accuracy, losses], rtol=1e-12)
    found = {name: one.value for name, one in score_figures(scores, root_mean=root_mean).items()}
    assert found["accuracy_difference"] == pytest.approx(np.ptp(accuracy), abs=1e-12)
    assert found["loss_difference"] == pytest.approx(np.ptp(losses), rel=1e-9)
    assert found["loss_ratio"] == pytest.approx(losses.min() / losses.max(), rel=1e-12)


@pytest.mark.parametrize(
    ("right", "loss", "expected", "why"),
    [
        (None, [1.0, 2.0], (None, 1 / 5, 0.5), ["no accuracy", None, None]),
        ([1, 2], [1.0, np.inf], (1 / 5, None, None), [None, *["of a group is not finite"] * 2]),
        ([1, 2], [1.0, np.nan], (1 / 5, None, None), [None, *["of a group is not finite"] * 2]),
        ([1, 2], [0.0, 0.0], (1 / 5, 0.0, None), [None, None, "0/0"]),
    ],
    ids=["a number", "overflown", "no number", "perfect"],
)
def test_scores_that_cannot_be_compared_have_a_reason(right, loss, expected, why):
    """Of accuracy, and of losses their difference and ratio."""
    correct = None if right is None else np.array([right])
    found = score_figures(GroupScores(np.array([[5, 5]]), correct, np.array([loss])))
    names = ("accuracy_difference", "loss_difference", "loss_ratio")
    for name, value, words in zip(names, expected, why, strict=True):
        assert found[name].value == (value if value is None else pytest.approx(value))
        assert (words or "") in (found[name].reason or "")


def test_groups_of_scores_are_left_out_and_compared_as_those_of_rates():
    scores = GroupScores(
        np.array([[40, 50, 20, 10]]), np.array([[40, 25, 0, 0]]), np.array([[40.0, 25, 90, 90]])
    )
    found = score_figures(scores, minimum_group_size=30)
    assert found["accuracy_difference"].value == 0.5
    assert "2 of 4 groups left out" in found["accuracy_difference"].reason
    for figure in score_figures(scores, minimum_group_size=45).values():
        assert figure.value is None
        assert "fewer than two groups" in figure.reason
    # Of losses per row 1, 0.5, 4.5 and 9 the second is compared with each other one.
    against = score_figures(scores, reference=1)
    values = [figure.value for figure in against.values()]
    assert sorted(values) == [pytest.approx(0.5 / 9), 0.5, 8.5]
    with pytest.raises(ValueError, match="is no group"):
        score_figures(scores, reference=4)


@pytest.mark.parametrize(
    ("rows", "loss", "figure", "level"),
    [
        (np.ones((2, 2), np.int64), np.array([[0, 0.5], [9, 0.9]]), "loss_difference", 0.999),
        (np.full((9, 2), 20), np.full((9, 2), 10.0), "loss_ratio", 0.95),
    ],
    ids=["of two clients", "all alike"],
)
def test_losses_that_say_nothing_have_no_interval(rows, loss, figure, level):
    scores = GroupScores(rows, None, loss)
    found = score_intervals(scores, disclosed_scores(scores), root_mean=False, level=level)
    assert found[figure] == NOT_ESTIMABLE
