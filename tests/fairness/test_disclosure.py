"""The one decision which groups are disclosed, and that it is used for its own population only."""

import numpy as np
import pytest

from fedaudit.fairness.disclosure import DisclosureRule, attribute_rule, size_rule
from fedaudit.fairness.gaps import NO_OUTCOME, GroupScores, client_averages, gaps, score_gaps
from fedaudit.fairness.intervals import rate_intervals, score_intervals
from fedaudit.fairness.permutation import NO_GAP, permutation_nulls, score_nulls
from fedaudit.fairness.suppression import (
    IntersectionTable,
    shown_cells,
    shown_groups,
    with_complementary_suppression,
)
from fedaudit.spec.fairness import Groups
from fedaudit.spec.metrics import METRICS
from tests.fairness.disclosures import disclosed, disclosed_clients
from tests.fairness.specs import GROUPS, spec

LYING = IntersectionTable((2, 3), ((0,), (1,)))


def test_groups_are_those_that_suppression_shows():
    rows = np.random.default_rng(1).integers(0, 90, (50, 6))
    for combination in (None, LYING):
        found = disclosed(rows, minimum_group_size=30, combination=combination)
        expected = shown_groups(rows, minimum_group_size=30, combination=combination)
        assert (found.shown == expected).all()
        assert found.shown.any()
        assert not found.shown.all()


def test_averages_over_clients_need_two_clients_and_say_so():
    rows, clients = np.array([100, 50, 40, 300]), np.array([3, 3, 2, 1])
    pooled = disclosed(rows, minimum_group_size=30)
    found = pooled.of_clients(clients)
    expected = with_complementary_suppression(
        pooled.shown & (clients >= 2), rows, minimum_group_size=30
    )
    assert found.shown.tolist() == expected.tolist() == [True, True, False, False]
    assert pooled.shown.all(), "the decision by rows alone stays what it was"
    assert "fewer than 30 scored rows or 2 clients" in found.reason
    assert "clients" not in pooled.reason
    assert found.suppresses
    assert not pooled.suppresses


def test_parts_keep_what_their_totals_hide():
    rows = np.random.default_rng(2).integers(0, 150, (3, 6))
    totals = disclosed(rows.sum(axis=0), minimum_group_size=30, combination=LYING)
    found = totals.of_parts(rows, of="rows of a part")
    expected = shown_cells(rows, totals.shown, minimum_group_size=30, combination=LYING)
    assert (found.shown == expected).all()
    assert "fewer than 30 rows of a part" in found.reason


def test_a_group_without_rows_is_not_one_that_is_suppressed():
    found = disclosed([40, 0, 50], minimum_group_size=30)
    assert found.shown.tolist() == [True, False, True]
    assert not found.suppresses


def test_sizes_are_small_where_there_are_some_and_too_few():
    rule = DisclosureRule(30)
    assert [rule.is_small(size) for size in (0, 1, 29, 30)] == [False, True, True, False]
    assert [rule.is_large(size) for size in (0, 29, 30)] == [False, False, True]


def test_a_reference_group_belongs_to_one_attribute():
    experiment = spec(reference_group="F", minimum_group_size=7)
    assert attribute_rule(experiment, "sex", GROUPS).reference == 0
    of_race = attribute_rule(experiment, "race", GROUPS)
    assert (of_race.reference, of_race.combination) == (None, None)
    assert of_race.minimum_group_size == 7


def test_a_rule_knows_how_an_intersection_lies_and_whether_an_outcome_is_favourable():
    experiment = spec(intersections=[["sex", "race"]])
    assert attribute_rule(experiment, "sex_race", GROUPS).combination == LYING
    assert attribute_rule(experiment, "sex_race", GROUPS).alone().combination is None
    assert attribute_rule(experiment, "sex", GROUPS).has_favourable_outcome
    assert not attribute_rule(spec(favourable=None), "sex", GROUPS).has_favourable_outcome


def test_a_reference_must_be_one_of_the_groups():
    with pytest.raises(ValueError, match="reference 2 is no group; give a place below 2"):
        DisclosureRule(1, reference=2).decide(np.array([3, 4]))


def test_groups_that_are_not_compared_go_by_size_alone():
    assert size_rule(Groups(minimum_group_size=12)) == DisclosureRule(12)


@pytest.mark.parametrize("other", ["a population with other rows", "a population of another shape"])
def test_a_decision_about_one_population_does_not_serve_another(other):
    counts = np.random.default_rng(3).integers(1, 9, (30, 3, 4))
    scores = GroupScores(counts.sum(-1), None, np.ones((30, 3)))
    if other == "a population with other rows":
        wrong = disclosed_clients(counts[1:])
    else:
        wrong = disclosed_clients(counts[:, :2])
    with pytest.raises(ValueError, match=r"those whose disclosure was decided|counts have shape"):
        gaps(counts.sum(axis=0), wrong)
    for use in (
        lambda: score_gaps(scores, wrong, root_mean=False),
        lambda: client_averages(counts, wrong),
        lambda: rate_intervals(counts, wrong, level=0.9),
        lambda: score_intervals(scores, wrong, root_mean=False, level=0.9),
        lambda: permutation_nulls(counts, wrong, seed=1),
        lambda: score_nulls(scores, wrong, root_mean=False, seed=1),
    ):
        with pytest.raises(ValueError, match="are not those whose disclosure was decided"):
            use()


def test_without_a_favourable_outcome_rates_have_nothing_to_show():
    """The rows are known from the scores; the counts, of which there are none, are all 0."""
    counts = np.zeros((30, 2, 4), dtype=np.int64)
    disclosure = DisclosureRule(1, has_favourable_outcome=False).decide(np.array([90, 60]))
    (figures,) = gaps(counts.sum(axis=0), disclosure)
    assert {figure.reason for figure in figures} == {NO_OUTCOME}
    assert permutation_nulls(counts, disclosure, seed=1) == dict.fromkeys(METRICS, NO_GAP)
    intervals = rate_intervals(counts, disclosure, level=0.9)
    assert {interval.reason for interval in intervals.values()} == {NO_OUTCOME}


def test_groups_of_too_few_clients_are_suppressed_and_the_reason_says_so():
    rows, clients = np.array([100, 50, 40, 300]), np.array([3, 3, 2, 1])
    found = DisclosureRule(30, minimum_group_clients=2).decide(rows, clients=clients)
    assert found.shown.tolist() == [True, True, False, False]  # the smallest other one besides
    assert "fewer than 30 scored rows or 2 clients" in found.reason
    just_enough = DisclosureRule(30, minimum_group_clients=2).decide(rows, clients=clients + 1)
    assert just_enough.shown.all()
    for unknown in (None, clients):
        lenient = DisclosureRule(30, minimum_group_clients=1 if unknown is not None else 2)
        asked = lenient.decide(rows, clients=unknown)
        assert asked.shown.all()
        assert "clients" not in asked.reason


def test_what_something_else_speaks_against_is_suppressed():
    rows = np.array([100, 50, 40, 300])
    allowed = np.array([True, False, True, True])
    found = DisclosureRule(30).decide(rows, allowed=allowed)
    assert found.shown.tolist() == [True, False, False, True]
    assert DisclosureRule(30).decide(rows, allowed=np.ones(4, np.bool_)).shown.all()


@pytest.mark.parametrize("reference", [-1, 3])
def test_a_reference_is_one_of_the_groups(reference):
    with pytest.raises(ValueError, match="give a place below 3"):
        DisclosureRule(30, reference=reference).decide(np.array([50, 60, 70]))
    for place in (0, 1, 2):
        decided = DisclosureRule(30, reference=place).decide(np.array([50, 60, 70]))
        assert decided.reference == place


def test_a_decision_is_for_the_rows_that_it_was_made_from():
    rows = np.array([50, 60, 70])
    found = DisclosureRule(30).decide(rows)
    found.check(rows.copy())
    for other in (rows[:2], rows[None], np.array([50, 60, 71])):
        with pytest.raises(ValueError, match="decide it from their own rows"):
            found.check(other)


def test_one_row_is_enough_to_be_suppressed():
    found = disclosed([40, 1, 50, 45], minimum_group_size=30)
    assert not found.shown[1]
    assert found.suppresses
    assert DisclosureRule(30).is_large(31)
