"""Impact ratios: equal to those computed by hand, and silent where a group is suppressed."""

from typing import Any

import pytest

from fedaudit.reports.readings.readings import ImpactRatioTable, impact_ratio
from fedaudit.reports.report import assemble


def section(
    rates: dict[str, float | None],
    *,
    attribute: str = "sex",
    suppressed: tuple[str, ...] = (),
    of: list[str] | None = None,
) -> dict[str, Any]:
    """What a report says of an attribute whose groups have these selection rates."""
    groups = [
        {"value": value, "suppressed": value in suppressed, "selection_rate": rate}
        | {"reasons": {"selection_rate": "why not"} if rate is None else {}}
        for value, rate in rates.items()
    ]
    return {"attribute": attribute, "intersection_of": of, "groups": groups, "metrics": {}}


def table_of(rates: dict[str, float | None], *hidden: str, **more: Any) -> ImpactRatioTable:
    """The only table of a report on sex."""
    [table] = impact_ratio({"fairness": [section(rates, suppressed=hidden)], **more}).tables
    return table


def test_ratios_by_sex_and_race_are_those_computed_by_hand() -> None:
    sex, race = {"Female": 0.25, "Male": 0.5}, {"Black": 0.4, "White": 0.5, "Other": 0.9}
    both = {"Female, Black": 0.3, "Male, White": 0.4, "Male, Other": None}
    crossed = {"attribute": "sex_race", "of": ["sex", "race"], "suppressed": ("Male, Other",)}
    found = impact_ratio(
        {
            "spec": {"training": {"loss": "cross-entropy"}},
            "data": {"notes": ["rows without a value of 'race', in no group: 9", "36 rows"]},
            "fairness": [
                section(both, **crossed),
                section(sex),
                section(race, attribute="race", suppressed=("Other",)),
            ],
        }
    )
    assert [one.attribute for one in found.tables] == ["sex", "race", "sex_race"]
    assert [one.intersection_of for one in found.tables] == [None, None, ["sex", "race"]]
    assert [one.missing_rows for one in found.tables] == [0, 9, 0]
    assert [one.highest_rate for one in found.tables] == [0.5, 0.5, 0.4]
    assert [one.suppressed_categories for one in found.tables] == [0, 1, 1]
    ratios = [[row.impact_ratio for row in one.categories] for one in found.tables]
    assert ratios == [[0.5, 1.0], [0.8, 1.0, None], [pytest.approx(0.75), 1.0, None]]
    assert [one.below_four_fifths for one in found.tables] == [1, 0, 1]
    assert found.rate == "selection"
    assert "not legal advice" in found.notice
    assert not [note for note in found.notes if "no table of intersections" in note]


@pytest.mark.parametrize(
    ("low", "high", "reading"),
    [
        (0.48, 0.6, "at least four fifths"),
        (0.56, 0.7, "at least four fifths"),
        (0.07 * 4, 0.07 * 5, "at least four fifths"),
        (0.799 * 0.5, 0.5, "below four fifths"),
        (0.0, 0.5, "below four fifths"),
    ],
)
def test_four_fifths_exactly_is_not_below(low, high, reading):
    table = table_of({"a": high, "b": low})
    assert [one.four_fifths for one in table.categories] == ["at least four fifths", reading]
    assert table.below_four_fifths == (reading == "below four fifths")


@pytest.mark.parametrize(
    ("rates", "reason"),
    [
        ({"a": 0.5}, "no other category shows a rate"),
        ({"a": 0.5, "b": None}, "no other category shows a rate"),
        ({"a": 0.0, "b": 0.0}, "no category has a favourable outcome"),
    ],
)
def test_a_ratio_without_a_comparison_is_null_with_a_reason(rates, reason):
    table = table_of(rates)
    assert all(one.impact_ratio is None for one in table.categories)
    assert reason in table.categories[0].reason
    assert table.below_four_fifths == 0


def test_a_rate_in_a_suppressed_group_is_never_shown():
    table = table_of({"a": 0.5, "b": 0.4, "c": 0.9}, "c")
    assert table.highest_rate == 0.5
    hidden = table.categories[2]
    assert (hidden.rate, hidden.reason) == (None, "the report has no rate")
    assert "0.9" not in table.model_dump_json()


def test_a_number_has_scoring_rates_and_says_how_they_differ(material):
    document = assemble(material())
    found = impact_ratio(document)
    assert found.rate == "scoring"
    assert "median" in found.rate_definition
    assert [note for note in found.notes if "no table of intersections" in note]
    rates = {one["value"]: one["selection_rate"] for one in document["fairness"][0]["groups"]}
    assert {one.category: one.rate for one in found.tables[0].categories} == rates
    assert table_of({"a": 0.5}, data={}).missing_rows is None
