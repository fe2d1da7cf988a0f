"""What a report calls its groups and the favourable outcome follows from its spec."""

from typing import Any

import pytest

from fedaudit.reports.report import assemble
from fedaudit.reports.sections.outcome_words import words_checks


@pytest.fixture
def report(material: Any) -> dict[str, Any]:
    source = {
        "source": "synthetic-groups",
        "clients_per_group": [40, 20],
        "labels": {"group": {"g1": "majority"}},
    }
    return assemble(material({"federation": source}))


def outcomes(report: dict[str, Any]) -> list[str]:
    return [one.outcome for one in words_checks(report)]


def test_words_of_the_spec_pass(report):
    assert outcomes(report) == ["pass"]
    del report["fairness"][0]["favourable"]
    assert outcomes(report) == ["fail"]


def test_an_outcome_or_group_by_another_name_is_found(report: dict[str, Any]) -> None:
    section = report["fairness"][0]
    for changed in (
        {**section, "favourable": "denied"},
        {**section, "favourable": None},
        {**section, "groups": [{**section["groups"][0], "label": "minority"}]},
        {**section, "groups": [{**one, "label": None} for one in section["groups"]]},
        {**section, "groups": [{"label": "majority"}]},
        {**section, "groups": None},
    ):
        assert outcomes({**report, "fairness": [changed]}) == ["fail"], changed
