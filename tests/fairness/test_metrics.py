"""The table of rates and gaps, and that figures follow from it."""

from typing import get_args

import fairlearn.metrics
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from fedaudit.fairness import noised_intervals
from fedaudit.fairness.intervals import Clustered, _rate_limits
from fedaudit.fairness.metrics import group_rates, lacking, rate_gaps
from fedaudit.fairness.noised_intervals import rate_bounds
from fedaudit.fairness.published_counts import NoisedCounts
from fedaudit.reports.document.rate_fields import stored_rate
from fedaudit.spec.gates import FairnessFigure, Gate
from fedaudit.spec.metrics import (
    COUNTS,
    FAIRNESS_FIGURES,
    FAMILIES,
    HEADLINE,
    HEADLINE_WITHOUT_OUTCOME,
    METRICS,
    RATES,
    ROUND_METRICS,
    SCORE_METRICS,
    SHARES,
    Rate,
    is_ratio,
)

TREATMENT = Rate("treatment_ratio", ("false_negatives",), ("false_positives",), "false positives")
"""Of treatment equality: no share."""

counts_of_groups = st.lists(
    st.lists(st.integers(0, 9), min_size=4, max_size=4), min_size=2, max_size=5
)


@settings(max_examples=100, deadline=None)
@given(counts_of_groups)
def test_a_rate_is_the_share_of_its_counts(counts):
    measured = group_rates(np.array(counts))
    for of_rate, rate in zip(measured, RATES.values(), strict=True):
        for value, of_group in zip(of_rate, counts, strict=True):
            named = dict(zip(COUNTS, of_group, strict=True))
            rows = sum(named[name] for name in rate.denominator)
            if rows:
                assert value == sum(named[name] for name in rate.numerator) / rows
            else:
                assert np.isnan(value)


@settings(max_examples=100, deadline=None)
@given(counts_of_groups)
def test_a_gap_is_the_worst_of_its_familys_rates(counts):
    rates = group_rates(np.array(counts))
    everyone = np.ones(len(counts), dtype=bool)
    named = dict(zip(METRICS, rate_gaps(rates, everyone), strict=True))
    for family in FAMILIES:
        own = rates[[list(RATES).index(name) for name in family.rates]]
        assert lacking(rates, family.name) == np.isnan(own).any(axis=0).sum()
        with np.errstate(invalid="ignore"):
            difference = (own.max(axis=1) - own.min(axis=1)).max()
            ratio = (own.min(axis=1) / own.max(axis=1)).min()
        np.testing.assert_equal(named[f"{family.name}_difference"], difference)
        np.testing.assert_equal(named[f"{family.name}_ratio"], ratio)


def test_a_rate_is_a_share_or_a_ratio_of_rows_apart():
    assert all(rate.is_share for rate in RATES.values())
    assert set(METRICS) < SHARES
    assert not TREATMENT.is_share
    with pytest.raises(ValueError, match="neither within the denominator nor apart"):
        Rate("mixed", ("true_positives", "false_positives"), ("true_positives",), "rows")


def test_a_ratio_of_rows_apart_has_an_interval_that_is_not_cut_at_one():
    of_rows = np.eye(4, dtype=np.int64)[np.repeat([1, 3], [40, 90])][:, np.newaxis]
    totals = of_rows.sum(axis=0).astype(float)
    found = _rate_limits(TREATMENT, Clustered(of_rows), totals, share=0.05)
    share = Rate("share", ("false_negatives",), ("false_positives", "false_negatives"), "rows")
    own = _rate_limits(share, Clustered(of_rows), totals, share=0.05)
    assert found.value == pytest.approx(90 / 40)
    assert 1 < found.low < found.value < found.high
    np.testing.assert_allclose(found.high, own.high / (1 - own.high))


def test_noise_leaves_a_ratio_of_rows_apart_an_interval_or_none_above(monkeypatch):
    monkeypatch.setattr(noised_intervals, "RATES", {TREATMENT.name: TREATMENT})
    noised = NoisedCounts(counts={}, deviation=2.0, tail="gaussian", max_rows=1)
    counts = np.array([[0, 400, 0, 900], [0, 0, 0, 900]])
    low, high = rate_bounds(counts, TREATMENT.name, noised, share=0.05)
    assert low[0] < 900 / 400 < high[0] < 3
    assert np.isnan(high[1])


def test_a_report_holds_a_rate_that_is_no_share_above_one_and_never_below_zero():
    field, default = stored_rate(TREATMENT)
    stored = TypeAdapter(field)
    assert (stored.validate_python(2.25), default) == (2.25, None)
    with pytest.raises(ValueError, match="greater than or equal to 0"):
        stored.validate_python(-0.1)


def test_the_families_of_fairlearn_have_its_names():
    theirs = [name for name in METRICS if hasattr(fairlearn.metrics, name)]
    assert theirs[:6] == [
        "demographic_parity_difference",
        "demographic_parity_ratio",
        "equalized_odds_difference",
        "equalized_odds_ratio",
        "equal_opportunity_difference",
        "equal_opportunity_ratio",
    ]


def test_what_is_singled_out_is_in_the_table():
    assert {HEADLINE, *ROUND_METRICS} <= set(METRICS)
    assert HEADLINE_WITHOUT_OUTCOME in SCORE_METRICS
    assert len(set(FAIRNESS_FIGURES)) == len(METRICS) + len(SCORE_METRICS)


def test_a_gate_may_name_every_figure_and_its_schema_lists_them():
    assert get_args(FairnessFigure) == FAIRNESS_FIGURES
    assert set(FAIRNESS_FIGURES) < set(Gate.model_json_schema()["properties"]["figure"]["enum"])
    for figure in FAIRNESS_FIGURES:
        assert Gate(figure=figure, op="le", value=0.5, attribute="sex").compares_groups
    with pytest.raises(ValueError, match="'equalized_odds_difference'"):
        Gate(figure="equalised_odds_difference", op="le", value=0.5)


def test_ratios_are_told_from_differences():
    assert [name for name in METRICS if is_ratio(name)] == [
        name for name, metric in METRICS.items() if metric.kind == "ratio"
    ]
    assert [name for name in SCORE_METRICS if is_ratio(name)] == ["loss_ratio"]


def test_reasons_and_labels_read_as_sentences():
    assert RATES["true_positive_rate"].why_undefined == "no rows with the favourable outcome"
    assert RATES["true_positive_rate"].label == "True positive rate"
    assert {family.name: family.rows for family in FAMILIES[:2]} == {
        "demographic_parity": "scored rows",
        "equalized_odds": "rows with or rows without the favourable outcome",
    }
