"""Reports that were stored before a rate or a gap was introduced: null, and it says why."""

import copy

import pytest

from fedaudit.reports.charts.report_charts import charts_of, rates_chart
from fedaudit.reports.comparison.compared_reports import compare
from fedaudit.reports.figures import figures_of, parsed
from fedaudit.reports.gates.gate_evaluation import evaluate
from fedaudit.reports.page.fairness_tables import fairness_tables
from fedaudit.reports.page.html import render
from fedaudit.reports.report import assemble
from fedaudit.reports.sections import part as rate_fields
from fedaudit.reports.sections.part import Part
from fedaudit.reports.verdict.verdict import verdict, verdict_parts
from fedaudit.spec.gates import Gate
from fedaudit.spec.metrics import COUNTS, FAIRNESS_FIGURES, NOT_IN_REPORT, RATES, Rate
from tests.reports.charts.test_charts_page import made


def without_rate(document, rate):
    """The report of a version that did not know the rate."""
    old = copy.deepcopy(document)
    for section in old["fairness"]:
        for group in section["groups"]:
            del group[rate]
            group["reasons"].pop(rate, None)
    return old


def without_metric(document, metric):
    """The report of a version that did not know the gap."""
    old = copy.deepcopy(document)
    for section in old["fairness"]:
        section["metrics"].pop(metric, None)
    return old


def charts(document):
    """The names of the charts by the attribute, over rounds that have every figure."""
    return [one.name for one in charts_of(document, made(9)).fairness[0]]


@pytest.fixture
def document(material):
    return assemble(material())


@pytest.mark.parametrize("rate", RATES)
def test_a_rate_that_is_missing_is_null_everywhere(document, rate):
    old = without_rate(document, rate)
    tables = fairness_tables(old["fairness"])
    rates = tables.by_section[0][1]
    column = rates.head.index(RATES[rate].label)
    assert {row[column] for row in rates.rows} == {"–"}
    notes = (*tables.notes.values(), *rates.reasons)
    assert any(NOT_IN_REPORT in note for note in notes)
    chart = rates_chart(old["fairness"][0], name="x")
    assert NOT_IN_REPORT in chart.table.rows[0]
    assert NOT_IN_REPORT in render(old)
    assert charts(old) == charts(document)


def test_a_report_may_lack_a_rate_that_came_later_and_no_other(monkeypatch):
    later = Rate("later_rate", ("true_positives",), COUNTS, rows="scored rows")
    monkeypatch.setattr(rate_fields, "RATES", {**RATES, later.name: later})

    @rate_fields.with_rates(after="value")
    class Group(Part):
        value: str
        reasons: dict[str, str]

    stored = {"value": "a", **dict.fromkeys(RATES, 0.5), "reasons": {}}
    assert Group.model_validate(stored).model_dump() == {**stored, "later_rate": None}
    always = [name for name, rate in RATES.items() if rate.in_every_report]
    assert Group.model_json_schema()["required"] == ["value", *always, "reasons"]
    assert list(Group.model_fields) == ["value", *RATES, "later_rate", "reasons"]
    for wrong in ({"later_rate": 1.5}, {"another_rate": 0.5}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            Group.model_validate({**stored, **wrong})


@pytest.mark.parametrize("metric", FAIRNESS_FIGURES)
def test_a_gap_that_is_missing_is_no_evidence_and_breaks_nothing(document, metric):
    old = without_metric(document, metric)
    assert metric not in {one.figure for one in figures_of(parsed(old))}
    gate = Gate(figure=metric, op="le", value=1.0, attribute="group")
    [found] = evaluate([gate], old)
    assert (found["outcome"], found["reason"]) == ("insufficient_evidence", NOT_IN_REPORT)
    assert verdict(verdict_parts(old))
    assert "<h1" in render(old)
    assert charts(old) == charts(document)
    other = copy.deepcopy(document)
    other["experiment"]["id"] = "another"
    assert compare([old, other]).figures
