"""Audits at a service, taken to their end by a worker in this process."""

from typing import Any

from models.tables.experiments import PredictionAudit
from tests.api.service import Api, body_of
from tests.audits.tables import asking
from tests.workers.serving import worker_of
from workers.run_unit import run_unit


def row_of(api: Api, audit_id: str) -> PredictionAudit:
    """The audit as it is stored."""
    return api.row(PredictionAudit, audit_id)


def made(api: Api, **asked: Any) -> dict[str, Any]:
    """An audit that a worker has taken to its end."""
    found = body_of(api.post("/v1/audits", json=asking(**asked)), 202)
    assert found["status"] == "queued"
    run_unit(worker_of(api), row_of(api, found["id"]).unit_id)
    body: dict[str, Any] = api.get(f"/v1/audits/{found['id']}").json()
    return body


def report_of(api: Api, audit: dict[str, Any]) -> dict[str, Any]:
    """The report of an audit that succeeded."""
    assert audit["status"] == "succeeded", audit
    report: dict[str, Any] = api.get(f"/v1/audits/{audit['id']}/report").json()
    return report
