"""Reports that were stored before they had an index: the migration finds the same in them."""

from typing import Any

from sqlalchemy import text

import migrations
from models.repositories import ReportRepository
from tests.api.service import Api
from tests.api.stored_reports import Reports, gaps, leaks, spends

LATER = ("auc", "balanced_accuracy", "brier", "expected_calibration_error", "precision", "recall")
"""Figures that no report of then has."""


def _index(api: Api) -> tuple[list[Any], list[Any]]:
    """Everything that reports are found by."""
    with api.database.read() as session:
        figures = session.execute(
            text("SELECT * FROM report_figures ORDER BY experiment_id, figure, attribute, observer")
        )
        reports = session.execute(text("SELECT * FROM report_summaries ORDER BY experiment_id"))
        of_then = [dict(row) for row in figures.mappings() if row["figure"] not in LATER]
        found = of_then, [dict(row) for row in reports.mappings()]
    for report in found[1]:
        report["summary"] = None if report["summary"] is None else "known"
    return found


def _listed(api: Api) -> list[dict[str, Any]]:
    """Without who submitted: what earlier revisions did not record is lost on the way back."""
    items: list[dict[str, Any]] = api.get("/v1/reports?limit=100").json()["items"]
    for one in items:
        del one["experiment"]["created_by"], one["answer"]
        one["figures"] = [part for part in one["figures"] if part["figure"] not in LATER]
    return items


def test_the_migration_finds_what_a_worker_would_have_stored(api_on_both: Api) -> None:
    api = api_on_both
    reports = Reports(api)
    for change in (
        leaks(7.0),
        gaps(sex=0.1, race=None),
        spends({"final_model": 1.0, "server": 2.0}),
        spends({"server": 0.25}, delta=1e-3, adjacency="add-or-remove-one"),
    ):
        reports.add(change)
    broken = api.submit()["id"]
    with api.database.write() as session:
        ReportRepository(session).put(broken, api.project_id, document={}, report_hash="a" * 64)
        if api.database.dialect == "sqlite":
            session.execute(
                text("UPDATE reports SET document = '{' WHERE experiment_id = :id"), {"id": broken}
            )
    before = _index(api)
    listed = _listed(api)
    url = api.database.url.render_as_string(hide_password=False)
    migrations.downgrade(url, "0007")
    migrations.upgrade(url)
    assert _index(api) == before
    assert len(before[0]) > 5 * 10
    assert _listed(api) == listed
    assert listed[0]["experiment"]["id"] == broken
    assert listed[0]["verdict"] is None
