"""Impact ratios: equal to those computed by hand, and silent where a group is suppressed."""

import csv
import random
from pathlib import Path
from typing import Any

import pytest

from fedaudit.cli.run import run_locally
from fedaudit.federations.load import load_federation
from fedaudit.reports.readings.readings import ImpactRatioTable, impact_ratio
from fedaudit.reports.report import assemble
from fedaudit.spec.parse import parse_spec
from fedaudit.training.base.cell import Cell
from fedaudit.training.stack import Stack

ADULT: dict[str, Any] = {
    "name": "adult-like",
    "seed": 5,
    "federation": {
        "source": "table",
        "path": "adult.csv",
        "client_key": "occupation",
        "target": "income",
        "positive": ">50K",
        "features": ["age", "education"],
        "scale": {"age": 100, "education": 16},
        "validation_fraction": 0.5,
    },
    "model": {"kind": "logistic"},
    "training": {
        "loss": "cross-entropy",
        "rounds": 15,
        "cohort": {"clients": 5},
        "local": {"epochs": 5, "step_size": 5},
    },
    "privacy": {"mechanism": "none"},
    "fairness": {
        "sensitive": ["sex", "race"],
        "intersections": [["sex", "race"]],
        "intervals": None,
    },
}


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a small table like UCI Adult: 600 people of 20 occupations, of whom men earn
    more, 70 are of small races and 9 gave no race."""
    folder = tmp_path_factory.mktemp("sources")
    draw = random.Random(11)
    with (folder / "adult.csv").open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["occupation", "age", "education", "sex", "race", "income"])
        for row in range(600):
            sex = draw.choice(["Female", "Male"])
            race = draw.choice(["Black", "White", "White"])
            race = {0: "Other", 8: "Asian"}.get(row % 17, race)
            race = "" if row % 70 == 1 else race
            age = draw.randint(18, 60)
            education = min(16, draw.randint(4, 13) + 3 * (sex == "Male") + (race == "White"))
            income = age / 60 + education / 16 + draw.gauss(0, 0.2) > 1.3
            table.writerow([row % 20, age, education, sex, race, ">50K" if income else "<=50K"])
    return folder


@pytest.fixture(scope="module")
def report(sources: Path) -> dict[str, Any]:
    """The report of a run on it."""
    spec = parse_spec(ADULT)
    done = run_locally(spec, sources_dir=sources, device="cpu", progress=lambda _: None)
    return done.report


def _tables(document: dict[str, Any]) -> dict[str, ImpactRatioTable]:
    return {one.attribute: one for one in impact_ratio(document).tables}


def _by_hand(sources: Path) -> dict[str, dict[str, tuple[int, int]]]:
    """Scored rows and selected ones of each group, from the confidential counts of a rerun."""
    spec = parse_spec(ADULT)
    federation = load_federation(spec, sources_dir=sources)
    stack = Stack([Cell(spec=spec, federation=federation)], device="cpu")
    while stack.active:
        stack.advance(5)
    counted = stack.result(0).fairness
    return {
        attribute.name: {
            value: (int(of_group.sum()), int(of_group[0] + of_group[1]))
            for value, of_group in zip(
                attribute.values, counted[attribute.name].sum(axis=0), strict=True
            )
        }
        for attribute in federation.attributes
    }


def test_the_table_of_adult_by_sex_and_race_is_that_computed_by_hand(sources, report):
    counted, tables = _by_hand(sources), _tables(report)
    for attribute, groups in counted.items():
        table = tables[attribute]
        # Where fewer than 30 rows are hidden together, the smallest of the rest goes too; and so
        # within each sex for its races.
        hidden = {value for value, (rows, _) in groups.items() if rows < 30}
        if len(hidden) == 1 or 0 < sum(groups[value][0] for value in hidden) < 30:
            hidden.add(
                min((rows, value) for value, (rows, _) in groups.items() if value not in hidden)[1]
            )
        if attribute == "sex_race":
            assert hidden == {f"{s}, {r}" for s in ("Female", "Male") for r in ("Asian", "Other")}
            hidden |= {"Female, Black", "Male, Black"}
        rates = {
            value: selected / rows
            for value, (rows, selected) in groups.items()
            if value not in hidden
        }
        assert {one.category for one in table.categories if one.suppressed} == hidden
        assert table.suppressed_categories == len(hidden)
        shown = {one.category: one for one in table.categories if not one.suppressed}
        assert set(shown) == set(rates)
        if len(rates) < 2:
            assert all(one.impact_ratio is None for one in shown.values())
            continue
        highest = max(rates.values())
        assert table.highest_rate == highest
        for value, one in shown.items():
            assert one.rate == rates[value]
            assert one.impact_ratio == pytest.approx(rates[value] / highest, rel=1e-12)
            below = rates[value] < 0.8 * highest
            assert one.four_fifths == ("below four fifths" if below else "at least four fifths")
    sexes = {one.category: one for one in tables["sex"].categories}
    assert sexes["Male"].impact_ratio == 1.0
    assert sexes["Female"].four_fifths == "below four fifths"
    races = {one.category: one for one in tables["race"].categories}
    assert races["Other"].suppressed
    assert races["Asian"].suppressed
    assert races["Black"].impact_ratio is not None


def test_intersections_come_last_and_missing_values_are_counted(report):
    found = impact_ratio(report)
    assert [one.attribute for one in found.tables] == ["sex", "race", "sex_race"]
    assert [one.intersection_of for one in found.tables] == [None, None, ["sex", "race"]]
    # Rows 1, 71, ..., 561 have no race.
    assert [one.missing_rows for one in found.tables] == [0, 9, 9]
    assert found.rate == "selection"
    assert "not legal advice" in found.notice
    assert not [note for note in found.notes if "no table of intersections" in note]


def _document(
    rates: dict[str, float | None], *, suppressed: tuple[str, ...] = (), **more: Any
) -> dict[str, Any]:
    groups = [
        {"value": value, "suppressed": value in suppressed, "selection_rate": rate}
        | {"reasons": {"selection_rate": "why not"} if rate is None else {}}
        for value, rate in rates.items()
    ]
    return {"fairness": [{"attribute": "sex", "groups": groups, "metrics": {}}], **more}


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
    [table] = impact_ratio(_document({"a": high, "b": low})).tables
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
    [table] = impact_ratio(_document(rates)).tables
    assert all(one.impact_ratio is None for one in table.categories)
    assert reason in table.categories[0].reason
    assert table.below_four_fifths == 0


def test_a_rate_in_a_suppressed_group_is_never_shown():
    document = _document({"a": 0.5, "b": 0.4, "c": 0.9}, suppressed=("c",))
    [table] = impact_ratio(document).tables
    assert table.highest_rate == 0.5
    hidden = table.categories[2]
    assert (hidden.rate, hidden.reason) == (None, "the report has no rate")
    assert "0.9" not in table.model_dump_json()


def test_a_number_has_scoring_rates_and_says_how_they_differ(material):
    found = impact_ratio(assemble(material()))
    assert found.rate == "scoring"
    assert "median" in found.rate_definition
    assert [note for note in found.notes if "no table of intersections" in note]


def test_only_the_note_on_the_attribute_itself_counts():
    notes = ["rows without a value of 'race', in no group: 4", "36 rows were left out"]
    for data, missing in (({"notes": notes}, 0), ({}, None)):
        [table] = impact_ratio(_document({"a": 0.5}, data=data)).tables
        assert table.missing_rows == missing
