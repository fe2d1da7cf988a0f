"""Reports as JSON and as a page, and whether they agree with the stored ledger."""

import re
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from sqlalchemy import delete, select, text, update

from fedaudit.reports.report import Report as ReportDocument
from migrations.earlier.stored_reports import index_stored_reports
from models.database import Database
from models.repositories import ReportRepository
from models.tables.experiments import Experiment, Report
from models.tables.ledger import Ledger, LedgerCheckpoint
from tests.api.answers import body_of
from tests.api.service import KEY, SPEC, Api, fail, finish, finished
from tests.api.stored_reports import Reports, gaps, leaks, spends

JSON, HTML = "application/json", "text/html"
BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"


@pytest.fixture
def done(api: Api) -> str:
    """The path of a finished experiment's report."""
    return f"/v1/experiments/{finished(api)}/report"


FORMS = [
    ("", "*/*", JSON),
    ("", HTML, HTML),
    ("", BROWSER, HTML),
    ("", "text/html;q=0.5, application/json", JSON),
    ("", "image/png", JSON),
    ("", "text/html;q=x", JSON),
    (".json", HTML, JSON),
    (".html", JSON, HTML),
]


def test_the_form_follows_accept_or_suffix(api: Api) -> None:
    id_ = api.submit()["id"]
    document = finish(api, id_)
    for suffix, accept, media_type in FORMS:
        response = api.get(f"/v1/experiments/{id_}/report{suffix}", headers={"Accept": accept})
        assert response.status_code == 200
        assert response.headers["content-type"].partition(";")[0] == media_type, accept
        assert response.headers["cache-control"] == "no-store"
        if media_type == JSON:
            assert response.json() == document
            ReportDocument.model_validate(response.json())
        else:
            assert "default-src 'none'" in response.headers["content-security-policy"]
            assert "<script" not in response.text
            assert not re.search(r"(?:src|href)\s*=\s*['\"]?(?:https?:)?//", response.text)
            assert document["experiment"]["name"] in response.text


def test_without_a_report_the_status_is_shown(api: Api) -> None:
    queued, failed = api.submit()["id"], api.submit()["id"]
    fail(api, failed)
    for id_, status in ((queued, "queued"), (failed, "failed")):
        for rest in ("", ".json", ".html", "/verification", "?reading=registry"):
            response = api.get(f"/v1/experiments/{id_}/report{rest}")
            assert response.status_code == 404
            assert response.json()["detail"] == f"the experiment has no report: it is {status}"


# -- verification ----------------------------------------------------------------------------------


def _failed(api: Api, path: str) -> set[str]:
    body = body_of(api.get(f"{path}/verification"))
    failed = {check["name"] for check in body["checks"] if check["outcome"] == "fail"}
    assert body["valid"] == (not failed)
    return failed


def _detail(api: Api, path: str, name: str) -> str:
    checks = api.get(f"{path}/verification").json()["checks"]
    return str(next(check["detail"] for check in checks if check["name"] == name))


def test_an_untouched_report_is_valid(api_on_both: Api) -> None:
    done = f"/v1/experiments/{finished(api_on_both)}/report"
    body = api_on_both.get(f"{done}/verification").json()
    integrity = api_on_both.get(f"{done}.json").json()["integrity"]
    assert {check["outcome"] for check in body["checks"]} == {"pass"}
    names = {check["name"] for check in body["checks"]}
    assert {"ledger.entries", "report.signature", "report.leakage_max"} <= names
    # The service's own keys say nothing about who signed.
    assert (body["valid"], body["verdict"]) == (True, "consistent, signer untrusted")
    assert (body["entries"], body["key_id"]) == (3, KEY.key_id)
    for name in ("ledger_hash", "chain_head", "signature"):
        assert body[name] == integrity[name]


def _change(database: Database, table: type, column: str, value: Any, **where: Any) -> None:
    with database.write() as session:
        statement = update(table).values({column: value})
        for name, wanted in where.items():
            statement = statement.where(getattr(table, name) == wanted)
        session.execute(statement)


ALTERED: dict[str, list[Any]] = {
    "radii": [np.array([0.25, np.nan, np.nan])],
    "outcomes": [np.array([0, 1, 1], np.int16), np.array([256, 1, 2], np.int16)],
    "releases": [np.array([2, 1, 2], np.int32)],
    "subjects": [np.array(found, np.int32) for found in ([0, 3, 6], [0, 3, 9999], [0, 3])],
    "n": [4, -1],
    **{"noise_multiplier": [4.0], "guarantee": ["formal"], "clip": [1.0], "noise": ["release"]},
    **{"mechanism": ["none"], "radius": [0.5], "radius_floor": [2.0], "interrupted": [True]},
    "digest": [b"x" * 32],
}


def _round_2(database: Database) -> Ledger:
    with database.read() as session:
        return session.scalars(select(Ledger).where(Ledger.round == 2)).one()


def test_an_altered_entry_is_found(api_on_both: Api) -> None:
    api = api_on_both
    done = f"/v1/experiments/{finished(api)}/report"
    stored = _round_2(api.database)
    for column, value in ((name, one) for name, values in ALTERED.items() for one in values):
        _change(api.database, Ledger, column, value, round=2)
        failed = _failed(api, done)
        assert "ledger.digests" in failed, column
        assert "round 2" in _detail(api, done, "ledger.digests")
        if column != "digest":
            assert {"ledger.chain", "report.ledger_hash", "report.chain_head"} <= failed, column
        _change(api.database, Ledger, column, getattr(stored, column), round=2)
    assert _failed(api, done) == set()


def test_what_the_digest_leaves_out_is_in_the_chain(api: Api, done: str) -> None:
    stored = _round_2(api.database)
    of_clusters = {"report.chain_head", "checkpoints.chain"}
    changes: list[tuple[str, Any, set[str]]] = [
        ("link", b"x" * 32, set()),
        ("link", b"x", set()),
        ("clusters", np.array([1, 1, -1], np.int16), of_clusters),
    ]
    for column, value, also in changes:
        _change(api.database, Ledger, column, value, round=2)
        assert _failed(api, done) == {"ledger.chain", *also}
        assert "breaks at round 2, release 0" in _detail(api, done, "ledger.chain")
        _change(api.database, Ledger, column, getattr(stored, column), round=2)


@pytest.mark.parametrize("column", ["subjects", "radii"])
def test_a_column_or_report_of_sqlite_that_is_no_json_is_found(
    api: Api, done: str, column: str
) -> None:
    with api.database.write() as session:
        session.execute(text(f"UPDATE ledger SET {column} = '[0,3 5]' WHERE round = 2"))
    assert {"ledger.rows", "ledger.chain"} <= _failed(api, done)
    assert "round 2, release 0" in _detail(api, done, "ledger.rows")
    with api.database.write() as session:
        session.execute(text("UPDATE reports SET document = substr(document, 2)"))
    assert "report.hash" in _failed(api, done)


def test_deleted_rows_are_named(api: Api, done: str) -> None:
    with api.database.write() as session:
        session.execute(delete(Ledger).where(Ledger.round >= 2))
    assert "report.entries" in _failed(api, done)
    stated = _detail(api, done, "ledger.entries")
    assert stated.startswith("entries 2 to 3 (up to round 3) are missing: the signed checkpoint")


def test_checkpoints_that_were_altered_or_deleted_are_found(api: Api, done: str) -> None:
    database = api.database
    with database.read() as session:
        [envelope] = session.scalars(
            select(LedgerCheckpoint.envelope).where(LedgerCheckpoint.status == "succeeded")
        )
    [signature] = envelope["signatures"]
    forged = {**envelope, "signatures": [{**signature, "sig": "A" * 86 + "=="}]}
    _change(database, LedgerCheckpoint, "envelope", forged, status="succeeded")
    assert _failed(api, done) == {"checkpoints.signatures"}
    with database.write() as session:
        session.execute(delete(LedgerCheckpoint).where(LedgerCheckpoint.status == "succeeded"))
    assert _failed(api, done) == {"report.present"}
    with database.write() as session:
        session.execute(delete(LedgerCheckpoint))
    assert _failed(api, done) == {"checkpoints.signatures"}


# What else is found of a report is tested in tests/reports/verification.
ALTERED_REPORTS: list[tuple[str, str, Any, set[str]]] = [
    ("utility", "validation_loss", 0.1, set()),
    ("privacy", "leakage_max", 1.0, {"report.leakage_max", "report.gates"}),
    ("provenance", "spec_hash", "0" * 64, {"report.spec_hash"}),
]


def test_an_altered_report_is_found(api: Api) -> None:
    id_ = api.submit()["id"]
    document, path = finish(api, id_), f"/v1/experiments/{id_}/report"
    for section, field, value, also in ALTERED_REPORTS:
        altered = {**document, section: {**document[section], field: value}}
        _change(api.database, Report, "document", altered)
        assert _failed(api, path) == {"report.hash", "report.signature", *also}, field
    for gutted in ({}, {"integrity": {}, "privacy": {}}):
        _change(api.database, Report, "document", gutted)
        assert "report.hash" in _failed(api, path)


def test_an_altered_spec_is_found(api: Api) -> None:
    id_ = finished(api)
    for value in ({**api.stored(id_).spec, "seed": 8}, {"not": "a spec"}):
        _change(api.database, Experiment, "spec", value)
        failed = _failed(api, f"/v1/experiments/{id_}/report")
        assert {"report.spec_hash", "experiment.spec_hash", "checkpoints.subject"} <= failed


# -- gates evaluated on demand --------------------------------------------------------------------


[LEAKAGE] = SPEC["gates"]
STRICT = {**LEAKAGE, "value": 0.5}
ODDS = {"figure": "equalized_odds_difference", "op": "le", "value": 0.9, "attribute": "group"}
LACKING = "insufficient_evidence"


def _evaluate(api: Api, **asked: Any) -> Any:
    return api.post("/v1/gates/evaluations", json=asked)


@pytest.mark.parametrize(
    ("gates", "outcomes", "overall"),
    [
        ([LEAKAGE, ODDS], ["pass", "pass"], "pass"),
        ([LEAKAGE, STRICT], ["pass", "fail"], "fail"),
        ([{**LEAKAGE, "allow_heuristic": False}], [LACKING], LACKING),
        ([{**ODDS, "attribute": "age"}], [LACKING], LACKING),
        (None, ["pass"], "pass"),
        ([], [], None),
    ],
)
def test_each_gate_has_its_outcome_and_reason(api, gates, outcomes, overall):
    id_ = finished(api)
    before = api.counts()
    body = _evaluate(api, experiment_id=id_, gates=gates).json()
    assert [gate["outcome"] for gate in body["gates"]] == outcomes
    assert body["outcome"] == overall
    assert all(gate["reason"] for gate in body["gates"])
    assert (body["reason"] is None) == (overall is not None)
    assert api.counts() == before


def test_what_cannot_be_evaluated(api: Api) -> None:
    id_ = api.submit()["id"]
    queued = _evaluate(api, experiment_id=id_, gates=[LEAKAGE]).json()
    [gate] = queued["gates"]
    assert (queued["outcome"], gate["value"]) == (LACKING, None)
    assert gate["reason"] == "the experiment has no report: it is queued"


# -- reports that were stored before they had an index: the migration finds the same in them ------


LATER = {
    *("auc", "balanced_accuracy", "brier", "expected_calibration_error", "precision", "recall"),
    "weighted_accuracy_over_baseline",
}
"""Figures that no report of then has."""


def _index(api: Api) -> dict[str, list[Any]]:
    """Everything that reports are found by, and the list of them."""
    order = {"report_figures": "figure, attribute, observer", "report_summaries": "experiment_id"}
    found: dict[str, list[Any]] = {}
    with api.database.read() as session:
        for table, by in order.items():
            rows = session.execute(text(f"SELECT * FROM {table} ORDER BY experiment_id, {by}"))
            found[table] = [*map(dict, rows.mappings())]
    found["listed"] = api.get("/v1/reports?limit=100").json()["items"]
    for one in found["listed"]:
        del one["experiment"]["created_by"], one["answer"]
        one["figures"] = [part for part in one["figures"] if part["figure"] not in LATER]
    for one in found["report_summaries"]:
        one["summary"] = None if one["summary"] is None else "known"
    figures = found["report_figures"]
    return found | {"report_figures": [one for one in figures if one["figure"] not in LATER]}


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
        ReportRepository(session, api.project_id).put(broken, document={}, report_hash="a" * 64)
        if api.database.dialect == "sqlite":
            cut = text("UPDATE reports SET document = '{' WHERE experiment_id = :id")
            session.execute(cut, {"id": broken})
    before = _index(api)
    conditions = import_module("migrations.earlier.versions.0012_conditions_of_guarantees")
    with api.database.write() as session:
        for table in ("report_figures", "report_summaries"):
            session.execute(text(f"DELETE FROM {table}"))
        session.execute(text("UPDATE experiments SET log_ratio_max = NULL"))
        index_stored_reports(session.connection())
        conditions.fill_from_reports(session.connection())
    assert _index(api) == before
    assert len(before["report_figures"]) > 5 * 10
    newest = before["listed"][0]
    assert (newest["experiment"]["id"], newest["verdict"]) == (broken, None)
