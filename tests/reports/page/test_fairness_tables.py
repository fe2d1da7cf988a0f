"""The tables of an attribute on the report's page."""

import pytest

from fedaudit.number_text import bound_text, figure_text
from fedaudit.reports.page.fairness_tables import fairness_tables
from fedaudit.reports.page.html import render
from fedaudit.reports.report import assemble
from tests.reports.conftest import SPEC


@pytest.fixture
def section(material):
    return assemble(material())["fairness"][0]


def tables_of(section):
    """The tables of one attribute."""
    return fairness_tables([section]).by_section[0]


def test_what_tables_share_is_noted_once_on_the_page(material):
    sections = assemble(material())["fairness"] * 3
    found = fairness_tables(sections)
    marks = {row[-1] for tables in found.by_section for table in tables for row in table.rows}
    assert found.notes
    assert set(found.notes) <= marks
    assert len(set(found.notes.values())) == len(found.notes)


def cells(table):
    """Header of the row -> header of the column -> text."""
    return {row[0]: dict(zip(table.head, row, strict=True)) for row in table.rows}


def test_a_gap_stands_beside_its_interval(section):
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
        assert table.reasons
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
