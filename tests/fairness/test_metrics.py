"""The table of rates and gaps, and that figures follow from it."""

from typing import get_args

import fairlearn.metrics
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedaudit.fairness.metrics import group_rates, lacking, rate_gaps
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
    is_ratio,
)

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


def test_rates_are_shares():
    for rate in RATES.values():
        assert set(rate.numerator) < set(rate.denominator) <= set(COUNTS)


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
