"""What a report calls its groups and the favourable outcome."""

import pytest

from fedaudit.reports.page.html import render
from fedaudit.reports.readings.readings import reading
from fedaudit.reports.report import assemble
from fedaudit.reports.sections.outcome_words import derived_outcome, for_readers, group_words
from tests.reports.conftest import SPEC

TABLE = {"source": "table", "path": "a.csv", "client_key": "who", "target": "two_year_recid"}
CODES = {"SEX": {"1": "male", "2": "female"}, "two_year_recid": {"0": "not re-arrested"}}


def report(favourable=None, *, labels=None, positive=None, sections=(), **data):
    """As much of a report as words are made of."""
    federation = {**TABLE, "positive": positive, "labels": labels or {}}
    asked = {"training": {"loss": "cross-entropy"}, "fairness": {"favourable": favourable}}
    spec = {"federation": federation, **asked}
    return {"spec": spec, "data": data, "fairness": list(sections)}


def section(attribute, *values, of=None):
    groups = [{"value": value} for value in values]
    return {"attribute": attribute, "intersection_of": of, "groups": groups}


def among(*values, **rule):
    return {"op": "in", "value": list(values), **rule}


BY_SEX = [
    {"group": {"SEX": "1"}, "op": "ge", "value": 0},
    {"group": {"SEX": "3"}, "op": "le", "value": 15, "label": "cheap"},
]


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (report(among("0")), "two_year_recid = 0"),
        (report(among(0.0, 1.5, "a")), "two_year_recid = 0, 1.5 or a"),
        (report(among("0"), labels=CODES), "not re-arrested (two_year_recid = 0)"),
        (report(among("0", label="free"), labels=CODES), "free (two_year_recid = 0)"),
        (report(among("0", "1"), labels=CODES), "two_year_recid = 0 or 1"),
        (report(among(*"012345678", "9")), "two_year_recid = 0, 1, 2, 3, 4, 5, 6, 7 or 2 others"),
        (report({"op": "le", "value": 7000.0}), "two_year_recid <= 7000"),
        (report({"op": "ge", "value": 0.5}), "two_year_recid >= 0.5"),
        (
            report(BY_SEX, labels=CODES),
            "for male: two_year_recid >= 0; for SEX 3: cheap (two_year_recid <= 15)",
        ),
        (report(positive="0", labels=CODES), "not re-arrested (two_year_recid = 0)"),
        (report(positive_class="1"), "two_year_recid = 1"),
        (report(), "the positive class"),
        ({"spec": {"fairness": {"favourable": among("0")}}}, "the target = 0"),
        ({"spec": {"fairness": {"favourable": {"op": "near", "value": 3}}}}, None),
        ({"spec": {"training": {"loss": "rmse"}}}, None),
        ({}, None),
    ],
)
def test_the_favourable_outcome_is_said_with_its_rule(found, words):
    assert derived_outcome(found) == words


def test_groups_are_called_by_their_labels_and_codes_by_their_attribute():
    found = report(labels=CODES, sections=[section("SEX", "1", "2"), section("age", "<30")])
    for attribute, value, words in (
        *(("SEX", "1", "male"), ("SEX", "9", "SEX 9"), ("SEX", "1.0", "male")),
        *(("age", "<30", "age <30"), ("race", "Black", "Black")),
    ):
        assert group_words(found, attribute=attribute, value=value) == words
    assert group_words({**found, "fairness": None}, attribute="SEX", value="1") == "male"


def test_a_combination_is_called_by_the_labels_of_its_parts():
    sections = [
        section("SEX", "1", "2"),
        section("race", "Black", "1, 2"),
        section("SEX_race", "1, Black", "1, 1, 2", of=["SEX", "race"]),
    ]
    found = report(labels={"SEX": {"1": "male", "2": "female"}}, sections=sections)
    assert group_words(found, attribute="SEX_race", value="1, Black") == "male, Black"
    assert group_words(found, attribute="SEX_race", value="1, 1, 2") == "male, race 1, 2"
    plain = report(sections=sections)
    assert group_words(plain, attribute="SEX_race", value="1, Black") == "SEX 1, Black"


def test_every_view_of_a_report_shows_labels_and_the_json_keeps_codes(material):
    source = {**SPEC["federation"], "labels": {"group": {"g1": "majority"}}}
    rule = {"op": "ge", "value": 0, "label": "granted"}
    fairness = {"sensitive": ["group"], "favourable": rule}
    document = assemble(material({"federation": source, "fairness": fairness}))
    (by_group,) = document["fairness"]
    called = [(one["value"], one.get("label")) for one in by_group["groups"]]
    assert called == [("g1", "majority"), ("g2", None)]
    assert by_group["favourable"] == "granted (y >= 0)"
    page = render(document)
    assert "Favourable outcome: granted (y &gt;= 0)" in page
    assert '<th scope="row">majority</th>' in page
    assert '<th scope="row">g1</th>' not in page
    (table,) = reading(document, "impact-ratio")["tables"]
    called = [(one["category"], one["value"]) for one in table["categories"]]
    assert called == [("majority", "g1"), ("g2", "g2")]
    card = reading(document, "model-card")
    assert "| majority |" in card
    assert "granted (y >= 0)" in card.replace("\\", "")
    assert "favourable: granted" in str(reading(document, "nist-800-226"))
    read = for_readers(document)["fairness"][0]["groups"]
    assert [one["value"] for one in read] == ["majority", "g2"]


def test_without_a_favourable_outcome_the_report_says_why(material):
    fairness = {"sensitive": ["group"], "minimum_group_size": 150, "favourable": None}
    (section_,) = assemble(material({"fairness": fairness}))["fairness"]
    assert section_["favourable"] is None
    assert section_["favourable_reason"] == "no favourable outcome was declared"
