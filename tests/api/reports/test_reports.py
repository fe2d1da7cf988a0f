"""Reports as JSON and as a page, and whether they agree with the stored ledger."""

import io
import json
import re
import zipfile
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import delete, select, text, update

from api.shared.page_printer import PagePrinter
from fedaudit.ledger.bundle import opened_bundle
from fedaudit.ledger.statements import SigningKey, public_keys_in
from fedaudit.reports.readings.readings import reading
from fedaudit.reports.report import Report as ReportDocument
from fedaudit.reports.verification.verification import verify
from migrations.earlier.stored_reports import index_stored_reports
from models.repositories import ReportRepository, SigningKeyRepository
from models.tables.experiments import Experiment, Report
from models.tables.ledger import Ledger, LedgerCheckpoint
from tests.api.pages.browser import signed_in
from tests.api.service import KEY, SPEC, Api, body_of, fail, finish, finished, play
from tests.api.stored_reports import Reports, gaps, leaks, spends

JSON, HTML = "application/json", "text/html"
BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"


@pytest.fixture
def done(api: Api) -> str:
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
    document = finish(api, id_ := api.submit()["id"])
    for suffix, accept, media_type in FORMS:
        response = api.get(f"/v1/experiments/{id_}/report{suffix}", headers={"Accept": accept})
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


def _change_round_2(api: Api, column: str, value: Any) -> None:
    api.change(update(Ledger).where(Ledger.round == 2).values({column: value}))


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


def _round_2(api: Api) -> Ledger:
    with api.database.read() as session:
        return session.scalars(select(Ledger).where(Ledger.round == 2)).one()


def test_an_altered_entry_is_found(api_on_both: Api) -> None:
    api = api_on_both
    done = f"/v1/experiments/{finished(api)}/report"
    stored = _round_2(api)
    for column, value in ((name, one) for name, values in ALTERED.items() for one in values):
        _change_round_2(api, column, value)
        failed = _failed(api, done)
        assert "ledger.digests" in failed, column
        assert "round 2" in _detail(api, done, "ledger.digests")
        if column != "digest":
            assert {"ledger.chain", "report.ledger_hash", "report.chain_head"} <= failed, column
        _change_round_2(api, column, getattr(stored, column))
    assert _failed(api, done) == set()


def test_what_the_digest_leaves_out_is_in_the_chain(api: Api, done: str) -> None:
    stored = _round_2(api)
    of_clusters = {"report.chain_head", "checkpoints.chain"}
    for column, value, also in (
        *(("link", value, set()) for value in (b"x" * 32, b"x")),
        ("clusters", np.array([1, 1, -1], np.int16), of_clusters),
    ):
        _change_round_2(api, column, value)
        assert _failed(api, done) == {"ledger.chain", *also}
        assert "breaks at round 2, release 0" in _detail(api, done, "ledger.chain")
        _change_round_2(api, column, getattr(stored, column))


@pytest.mark.parametrize("column", ["subjects", "radii"])
def test_a_column_or_report_of_sqlite_that_is_no_json_is_found(
    api: Api, done: str, column: str
) -> None:
    api.change(text(f"UPDATE ledger SET {column} = '[0,3 5]' WHERE round = 2"))
    assert {"ledger.rows", "ledger.chain"} <= _failed(api, done)
    assert "round 2, release 0" in _detail(api, done, "ledger.rows")
    api.change(text("UPDATE reports SET document = substr(document, 2)"))
    assert "report.hash" in _failed(api, done)


def test_rows_and_checkpoints_that_were_altered_or_deleted_are_found(api: Api, done: str) -> None:
    of_the_end = LedgerCheckpoint.status == "succeeded"
    with api.database.read() as session:
        [envelope] = session.scalars(select(LedgerCheckpoint.envelope).where(of_the_end))
    [signature] = envelope["signatures"]
    forged = {**envelope, "signatures": [{**signature, "sig": "A" * 86 + "=="}]}
    api.change(update(LedgerCheckpoint).where(of_the_end).values(envelope=forged))
    assert _failed(api, done) == {"checkpoints.signatures"}
    api.change(delete(LedgerCheckpoint).where(of_the_end))
    assert _failed(api, done) == {"report.present"}
    api.change(delete(LedgerCheckpoint))
    assert _failed(api, done) == {"checkpoints.signatures"}
    cut = finished(api)
    api.change(delete(Ledger).where(Ledger.experiment_id == cut, Ledger.round >= 2))
    assert {"report.entries", "ledger.entries"} <= _failed(api, f"/v1/experiments/{cut}/report")


def test_an_altered_report_or_spec_is_found(api: Api) -> None:
    """What else is found of a report is tested in tests/reports/verification."""
    document = finish(api, id_ := api.submit()["id"])
    path = f"/v1/experiments/{id_}/report"
    for section, field, value, also in (
        ("utility", "validation_loss", 0.1, set()),
        ("privacy", "leakage_max", 1.0, {"report.leakage_max", "report.gates"}),
    ):
        altered = {**document, section: {**document[section], field: value}}
        api.change(update(Report).values(document=altered))
        assert _failed(api, path) == {"report.hash", "report.signature", *also}, field
    for gutted in ({}, {"integrity": {}, "privacy": {}}):
        api.change(update(Report).values(document=gutted))
        assert "report.hash" in _failed(api, path)
    api.change(update(Report).values(document=document))
    for spec in ({**api.stored(id_).spec, "seed": 8}, {"not": "a spec"}):
        api.change(update(Experiment).values(spec=spec))
        changed = {"report.spec_hash", "experiment.spec_hash", "checkpoints.subject"}
        assert changed <= _failed(api, path)


# -- gates evaluated on demand --------------------------------------------------------------------


[LEAKAGE] = SPEC["gates"]
STRICT = {**LEAKAGE, "value": 0.5}
ODDS = {"figure": "equalized_odds_difference", "op": "le", "value": 0.9, "attribute": "group"}
LACKING = "insufficient_evidence"


EVALUATED: tuple[tuple[list[Any] | None, list[str], str | None], ...] = (
    ([LEAKAGE, ODDS], ["pass", "pass"], "pass"),
    ([LEAKAGE, STRICT], ["pass", "fail"], "fail"),
    ([{**LEAKAGE, "allow_heuristic": False}], [LACKING], LACKING),
    ([{**ODDS, "attribute": "age"}], [LACKING], LACKING),
    (None, ["pass"], "pass"),
)


def test_each_gate_has_its_outcome_and_reason(api: Api) -> None:
    done, queued = finished(api), api.submit()["id"]
    with api.unchanged():

        def evaluate(id_: str, gates: list[Any] | None) -> Any:
            asked = {"experiment_id": id_, "gates": gates}
            return api.post("/v1/gates/evaluations", json=asked).json()

        for gates, outcomes, overall in EVALUATED:
            body = evaluate(done, gates)
            assert [gate["outcome"] for gate in body["gates"]] == outcomes
            assert (body["outcome"], body["reason"] is None) == (overall, overall is not None)
            assert all(gate["reason"] for gate in body["gates"])
        found = evaluate(queued, [LEAKAGE])
        [gate] = found["gates"]
        assert (found["outcome"], gate["value"]) == (LACKING, None)
        assert gate["reason"] == "the experiment has no report: it is queued"


# -- reports that were stored before they had an index: the migration finds the same in them ------


LATER = {
    *("auc", "balanced_accuracy", "brier", "expected_calibration_error", "precision", "recall"),
    "weighted_accuracy_over_baseline",
}
"""Figures that no report of then has."""


def _index(api: Api) -> dict[str, list[Any]]:
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


# -- bundles, and the keys that they are verified with --------------------------------------------


def test_a_bundle_is_judged_without_the_service(api: Api, tmp_path: Path) -> None:
    done, failed, running = finished(api), api.submit()["id"], api.submit()["id"]
    fail(api, failed)
    for begin in (lambda *_: None, play):
        begin(api, running)
        refused = body_of(api.get(f"/v1/experiments/{running}/bundle"), 409)
        assert refused["type"].endswith("/conflict")
    path = tmp_path / "bundle.zip"
    # Without a report, as after a failure, no signature says how the run ended.
    for id_, trusted, verdict, entries in (
        (done, [KEY.public], "valid", 3),
        (done, [], "consistent, signer untrusted", 3),
        (failed, [KEY.public], "consistent, signer untrusted", 0),
    ):
        answer = api.get(f"/v1/experiments/{id_}/bundle")
        assert (answer.status_code, answer.headers["content-type"]) == (200, "application/zip")
        assert answer.content == api.get(f"/v1/experiments/{id_}/bundle").content
        path.write_bytes(answer.content)
        with opened_bundle(path) as evidence:
            found = verify(evidence, trusted=trusted)
            assert (evidence.report is None) == (id_ == failed)
        assert (found.verdict, found.entries) == (verdict, entries)
        if id_ == done:
            assert {check.outcome for check in found.checks} == {"pass"}


def test_signing_keys_are_listed_with_the_retired_ones(api: Api) -> None:
    for key in (KEY, SigningKey.generate()):
        described = {"algorithm": "ed25519", "public_key": key.public.pem}
        with api.database.write() as session:
            SigningKeyRepository(session).use(key.key_id, **described)
    old, new = api.get("/v1/signing-keys").json()["items"]
    assert (old["key_id"], new["key_id"]) == (KEY.key_id, key.key_id)
    assert (old["retired_at"] is None, new["retired_at"] is None) == (False, True)
    assert public_keys_in(new["public_key"].encode()) == [key.public]


# -- readings of a report over HTTP ---------------------------------------------------------------


READINGS = {
    **dict.fromkeys(("registry", "nist-800-226", "impact-ratio"), "application/json"),
    **dict.fromkeys(("annex-iv", "edpb-28-2024"), "application/json"),
    "model-card": "text/markdown",
}


def test_a_reading_is_made_from_the_stored_report(api: Api) -> None:
    declared = api.get("/openapi.json", key=None).json()
    assert {"NistReading", "ImpactRatioReading"} <= set(declared["components"]["schemas"])
    id_ = api.submit()["id"]
    document = finish(api, id_)
    path = f"/v1/experiments/{id_}/report"
    for name, form in READINGS.items():
        operation = declared["paths"][f"/v1/experiments/{{experiment_id}}/report/readings/{name}"]
        assert [*operation["get"]["responses"]["200"]["content"]] == [form]
        response = api.get(f"{path}/readings/{name}", headers={"Accept": "text/html"})
        assert response.headers["content-type"].partition(";")[0] == form
        assert "sunset" not in response.headers
        found = response.text if name == "model-card" else response.json()
        assert found == reading(document, name)
        earlier = api.get(path, params={"reading": name})
        assert earlier.content == response.content
        assert earlier.headers["deprecation"].startswith("@")
        assert earlier.headers["sunset"].endswith("GMT")
        assert earlier.headers["link"] == f'<report/readings/{name}>; rel="successor-version"'
    assert api.get(path).json() == document
    for name in ("tea-leaves", ""):
        [fault] = body_of(api.get(path, params={"reading": name}), 422)["errors"]
        assert fault["pointer"] == "/query/reading"
        assert all(f"'{choice}'" in fault["message"] for choice in READINGS)


def test_a_dossier_is_made_from_the_stored_report(api, monkeypatch):
    monkeypatch.setattr(PagePrinter, "pdf", lambda _self, _page: b"%PDF")
    id_ = finished(api)
    path = f"/experiments/{id_}/dossier"
    made = api.get(f"/v1{path}.json").json()
    assert made["answer"]["outcome"] in ("do-not-release", "not-decided")
    with zipfile.ZipFile(io.BytesIO(api.get(f"/v1{path}").content)) as archive:
        assert set(archive.namelist()) > {"dossier.json", "dossier.html", "report.json"}
        page = archive.read("dossier.html").decode()
        assert json.loads(archive.read("dossier.json")) == made
    assert api.get(f"/v1{path}.html").text == page
    visitor = signed_in(api)
    assert f'href="{path}.html"' in visitor.get(f"/experiments/{id_}/report").text
    assert f"{made['open']} questions are open" in visitor.get(f"{path}.html").text
    assert visitor.get(f"{path}.zip").headers["content-type"] == "application/zip"
    assert api.get(f"/v1/experiments/{api.submit()['id']}/dossier").status_code == 404
