"""Reports as JSON and as a page, and whether they agree with the stored ledger."""

import re
from typing import Any

import numpy as np
import pytest
from sqlalchemy import delete, update

from fedaudit.reports.document import Report as ReportDocument
from models.database import Database
from models.tables import Experiment, Ledger, Report
from tests.api.service import Api, fail, finish

JSON, HTML = "application/json", "text/html"
BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"


@pytest.fixture
def done(api_on_both: Api) -> str:
    """The path of a finished experiment's report."""
    id_ = api_on_both.submit()["id"]
    finish(api_on_both, id_)
    return f"/v1/experiments/{id_}/report"


@pytest.mark.parametrize(
    ("suffix", "accept", "media_type"),
    [
        ("", "*/*", JSON),
        ("", JSON, JSON),
        ("", HTML, HTML),
        ("", BROWSER, HTML),
        ("", "text/html;q=0.5, application/json", JSON),
        ("", "text/*", HTML),
        ("", "image/png", JSON),
        ("", "", JSON),
        ("", "text/html;q=x", JSON),
        (".json", HTML, JSON),
        (".html", JSON, HTML),
    ],
)
def test_the_form_follows_accept_or_suffix(
    api: Api, suffix: str, accept: str, media_type: str
) -> None:
    id_ = api.submit()["id"]
    document = finish(api, id_)
    response = api.get(f"/v1/experiments/{id_}/report{suffix}", headers={"Accept": accept})
    assert response.status_code == 200
    assert response.headers["content-type"].partition(";")[0] == media_type
    assert response.headers["cache-control"] == "no-store"
    if media_type == JSON:
        assert response.json() == document
        ReportDocument.model_validate(response.json())
    else:
        assert "default-src 'none'" in response.headers["content-security-policy"]
        assert "<script" not in response.text
        assert not re.search(r"(?:src|href)\s*=\s*['\"]?(?:https?:)?//", response.text)
        assert document["experiment"]["name"] in response.text


@pytest.mark.parametrize("rest", ["", ".json", ".html", "/verification"])
def test_without_a_report_the_status_is_told(api: Api, rest: str) -> None:
    queued, failed = api.submit()["id"], api.submit()["id"]
    fail(api, failed)
    for id_, status in ((queued, "queued"), (failed, "failed")):
        response = api.get(f"/v1/experiments/{id_}/report{rest}")
        assert response.status_code == 404
        assert response.json()["detail"] == f"the experiment has no report: it is {status}"


# -- verification ----------------------------------------------------------------------------------


def _failed(api: Api, path: str) -> set[str]:
    response = api.get(f"{path}/verification")
    assert response.status_code == 200, response.text
    body = response.json()
    failed = {check["name"] for check in body["checks"] if check["outcome"] == "fail"}
    assert body["valid"] == (not failed)
    return failed


def test_an_untouched_report_is_valid(api_on_both: Api, done: str) -> None:
    body = api_on_both.get(f"{done}/verification").json()
    document = api_on_both.get(f"{done}.json").json()
    assert body["valid"]
    assert {check["outcome"] for check in body["checks"]} == {"pass"}
    assert len(body["checks"]) == 8
    assert body["entries"] == 3
    assert body["ledger_hash"] == document["integrity"]["ledger_hash"]
    assert body["chain_head"] == document["integrity"]["chain_head"]
    assert body["signature"] is None
    assert body["reasons"]["signature"]


def _change(database: Database, table: type, column: str, value: Any, **where: Any) -> None:
    with database.write() as session:
        statement = update(table).values({column: value})
        for name, wanted in where.items():
            statement = statement.where(getattr(table, name) == wanted)
        session.execute(statement)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("radii", np.array([0.25, np.nan, np.nan])),
        ("outcomes", np.array([0, 1, 1], np.int16)),
        ("releases", np.array([2, 1, 2], np.int32)),
        ("subjects", np.array([0, 3, 6], np.int32)),
        ("subjects", np.array([0, 3, 9999], np.int32)),
        ("subjects", np.array([0, 3], np.int32)),
        ("noise_multiplier", 4.0),
        ("guarantee", "formal"),
        ("interrupted", True),
        ("digest", b"x" * 32),
    ],
)
def test_an_altered_entry_is_found(api_on_both: Api, done: str, column: str, value: Any) -> None:
    _change(api_on_both.database, Ledger, column, value, round=2)
    failed = _failed(api_on_both, done)
    assert "ledger.digests" in failed
    check = next(
        check
        for check in api_on_both.get(f"{done}/verification").json()["checks"]
        if check["name"] == "ledger.digests"
    )
    assert "round 2" in check["detail"]
    if column != "digest":
        assert {"ledger.chain", "report.ledger_hash", "report.chain_head"} <= failed


def test_an_entry_with_a_new_digest_still_breaks_the_chain(api: Api) -> None:
    id_ = api.submit()["id"]
    finish(api, id_)
    _change(api.database, Ledger, "link", b"x" * 32, round=2)
    assert _failed(api, f"/v1/experiments/{id_}/report") == {"ledger.chain"}


@pytest.mark.parametrize("round_", [1, 2, 3])
def test_a_missing_entry_is_found(api_on_both: Api, done: str, round_: int) -> None:
    with api_on_both.database.write() as session:
        session.execute(delete(Ledger).where(Ledger.round == round_))
    failed = _failed(api_on_both, done)
    assert {"report.ledger_hash", "report.chain_head", "report.participations_max"} <= failed
    # The chain cannot tell that its newest entries were cut off; the report can.
    assert ("ledger.chain" in failed) == (round_ < 3)


@pytest.mark.parametrize(
    ("section", "field", "value", "also"),
    [
        ("utility", "validation_loss", 0.1, set()),
        ("privacy", "participations_max", 1, {"report.participations_max"}),
        ("integrity", "ledger_hash", "0" * 64, {"report.ledger_hash"}),
        ("provenance", "spec_hash", "0" * 64, {"report.spec_hash"}),
    ],
)
def test_an_altered_report_is_found(
    api: Api, section: str, field: str, value: Any, also: set[str]
) -> None:
    id_ = api.submit()["id"]
    document = finish(api, id_)
    document[section][field] = value
    _change(api.database, Report, "document", document)
    assert _failed(api, f"/v1/experiments/{id_}/report") == {"report.hash", *also}


@pytest.mark.parametrize("document", [{}, {"integrity": {}, "privacy": {}}])
def test_a_gutted_report_is_found(api: Api, document: dict[str, Any]) -> None:
    id_ = api.submit()["id"]
    finish(api, id_)
    _change(api.database, Report, "document", document)
    assert "report.hash" in _failed(api, f"/v1/experiments/{id_}/report")


def test_an_altered_spec_is_found(api: Api) -> None:
    id_ = api.submit()["id"]
    finish(api, id_)
    for value in ({**api.stored(id_).spec, "seed": 8}, {"not": "a spec"}):
        _change(api.database, Experiment, "spec", value)
        assert _failed(api, f"/v1/experiments/{id_}/report") == {"report.spec_hash"}
