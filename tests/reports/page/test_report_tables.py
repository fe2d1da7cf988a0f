"""The tables of an attribute on the report's page."""

from typing import Any

import pytest

from fedaudit.number_text import bound_text, figure_text
from fedaudit.reports.page.html import render
from fedaudit.reports.page.report_tables import attack_tables, fairness_tables, false_alarm_chance
from fedaudit.reports.report import assemble
from tests.reports.conftest import SPEC


@pytest.fixture
def section(material):
    return assemble(material())["fairness"][0]


def tables_of(section):
    """The tables of one attribute."""
    return fairness_tables([section])[0][0]


def test_what_tables_share_is_noted_once_on_the_page(material):
    sections = assemble(material())["fairness"] * 3
    by_section, notes = fairness_tables(sections)
    marks = {row[-1] for tables in by_section for table in tables for row in table.rows}
    assert notes
    assert set(notes) <= marks
    assert len(set(notes.values())) == len(notes)


def cells(table):
    """Header of the row -> header of the column -> text."""
    return {row[0]: dict(zip(table.head, row, strict=True)) for row in table.rows}


def test_a_gap_is_shown_beside_its_interval(section):
    table = cells(tables_of(section)[0])
    metric = section["metrics"]["equalized_odds_difference"]
    row = table["equalized odds difference"]
    ends = (metric["interval"]["low"], metric["interval"]["high"])
    assert row["Value"] == figure_text(metric["value"])
    assert row["95 % interval"] == " to ".join(map(figure_text, ends))


def test_a_missing_figure_has_its_reason_in_the_note(material):
    parts = {"fairness": {**SPEC["fairness"], "minimum_group_size": 10_000}}
    for table in tables_of(assemble(material(parts))["fairness"][0])[:2]:
        assert table.empty
        assert all(row[-1] for row in table.rows)
    page = " ".join(render(assemble(material(parts))).split())
    # One sentence in place of a table of dashes, with a reason that is said once.
    stated = "Rates of the groups of group: there is no figure to show. Suppressed:"
    assert page.count(stated) == 1
    assert "<caption>Rates of the groups of group</caption>" not in page


@pytest.mark.parametrize(
    ("value", "shown"),
    [(1.00001, "1.001"), (0.123449, "0.1235"), (2.4, "2.4"), (129, "129"), (12.0, "12")],
)
def test_what_bounds_a_cost_is_rounded_up(value, shown):
    assert bound_text(value) == shown
    assert float(shown) >= value


def test_epsilon_and_leakage_are_never_shown_as_less_than_they_are(material):
    document = assemble(material())
    document["privacy"]["leakage_max"] = 2.40001
    text = render(document)
    assert "at most 2.401, which bounds no guess" in text
    assert '<td class="number">2.401</td>' in text


# -- the figures of an attack on a page, whatever its kind names them -----------------------------


LONG = "the noise of the companion is drawn as the run draws its own"
_ABOUT = {
    **{"kind": "membership", "status": "done", "reason": None, "alarm": None},
    **{"statement": "Guesses.", "capabilities": [], "method": "threshold"},
}
SECTION: dict[str, Any] = {
    **_ABOUT,
    "auc": 0.5123456,
    "delta": 1e-5,
    "share": None,
    "share_reason": "too few rows",
    "claim": None,
    "shadows": None,
    "assumption": LONG,
    "interval": {"low": 0.25, "high": 0.5, "level": 0.95},
    "baseline": {"mse": 0.125, "ssim": None},
    "results": [
        {
            "noise_multiplier": 0.5,
            "nearest": {"value": 0.75, "interval": {"low": 0.5, "high": 1.0}, "reason": None},
            "groups": [{"value": "g1", "tpr": 0.25}, {"value": "g2", "tpr": None}],
        },
        {
            "noise_multiplier": 1,
            "nearest": {"value": None, "interval": None, "reason": "few"},
            "groups": [],
        },
    ],
    "reasons": {"shadows": "none are needed"},
}


def test_every_figure_is_shown_with_its_interval_or_its_reason() -> None:
    [shown] = attack_tables([SECTION])
    assert shown.title == "Membership: can a record be recognised as one of training? (threshold)"
    figures, results, groups = shown.tables
    assert {label: (value, note) for label, value, note in figures.rows} == {
        "Method": ("threshold", ""),
        "Area under the ROC curve (0.5 is guessing)": ("0.5123", ""),
        "Delta": ("1e-05", ""),
        "Share": ("–", "too few rows"),
        "Shadows": ("–", "none are needed"),
        "Assumption": ("", LONG),
        "Interval": ("0.25 to 0.5 (95 %)", ""),
        "Baseline: mean squared error": ("0.125", ""),
    }
    assert (results.caption, results.head) == ("Results", ["Noise multiplier", "Nearest"])
    assert not results.words
    assert results.rows == [["0.5", "0.75 (0.5 to 1)"], ["1", "few"]]
    assert groups.caption == "Results: noise multiplier 0.5, groups"
    assert groups.rows == [["g1", "0.25"], ["g2", "–"]]


def test_chances_of_a_false_alarm_add_up_over_attacks() -> None:
    assert false_alarm_chance([SECTION, {**SECTION, "alarm_level": None}]) is None
    tested = [{**SECTION, "alarm_level": level} for level in (0.05, 0.01)]
    assert false_alarm_chance([SECTION, *tested]) == "0.06"
    assert false_alarm_chance([{"alarm_level": 0.05}] * 40) == "1"
    # Attacks with e-values share one level, beside which stand those of earlier versions.
    weighed = {**SECTION, "alarm_level": 0.01, "e_value": 0.5}
    assert false_alarm_chance([*tested, *[weighed] * 40]) == "0.07"
