"""Calls on audits of predictions that were made elsewhere."""

from collections.abc import AsyncGenerator, Mapping
from typing import IO, Any

from fedaudit_client.http.answers import Json, content, json_as, json_object, text
from fedaudit_client.http.calls import Calls, call, pages, steps, stream
from fedaudit_client.http.polling import last_of, polled
from fedaudit_client.http.request import Request, once, path_part
from fedaudit_client.result_types import Audit, AuditVerification

_ENDED = ("succeeded", "failed")


class AuditCalls(Calls):
    """What can be done with audits of a table of predictions."""

    @call
    def submit_audit(
        self, spec: Mapping[str, Any], *, idempotency_key: str | None = None
    ) -> Request[Audit]:
        """Ask for an audit; the answer is the audit, `queued`. Nothing is trained.

        Tried again where no answer comes, as `submit` is.
        """
        body = {"json": dict(spec)}
        return Request("POST", "audits", json_as(Audit), body=body, **once(idempotency_key))

    @stream
    def audits(self) -> AsyncGenerator[Audit, None]:
        """Every audit of the key's project, newest first."""
        return pages(self._wire, "audits", {}, Audit)

    @call
    def audit(self, audit_id: str) -> Request[Audit]:
        """One audit: how it stands, and what is to be mended where it failed."""
        return _one(audit_id)

    @steps
    async def wait_audit(self, audit_id: str, *, patience_seconds: float = 60.0) -> Audit:
        """The audit, once it has `succeeded` or `failed`, however long it takes.

        Raises UnreachableError, or ProblemError, after `patience_seconds` without the service.
        """
        answers = polled(
            self._wire, _one(audit_id), has_ended=_has_ended, patience_seconds=patience_seconds
        )
        return await last_of(answers)

    @call
    def audit_report(self, audit_id: str) -> Request[Json]:
        """The report document of an audit that succeeded."""
        return Request("GET", f"{_path(audit_id)}/report.json", json_object)

    @call
    def audit_report_page(self, audit_id: str) -> Request[str]:
        """The report as one HTML page."""
        return Request("GET", f"{_path(audit_id)}/report.html", text)

    @call
    def audit_verification(self, audit_id: str) -> Request[AuditVerification]:
        """What the service found when it checked the report, and what it could not check."""
        path = f"{_path(audit_id)}/report/verification"
        return Request("GET", path, json_as(AuditVerification))

    @steps
    async def download_audit_bundle(self, audit_id: str, file: IO[bytes]) -> None:
        """Write everything that offline verification needs into a file, as a zip."""
        request = Request("GET", f"{_path(audit_id)}/bundle", content)
        await self._wire.download(request, file)


def _has_ended(audit: Audit) -> bool:
    return audit["status"] in _ENDED


def _one(audit_id: str) -> Request[Audit]:
    return Request("GET", _path(audit_id), json_as(Audit))


def _path(audit_id: str) -> str:
    return f"audits/{path_part(audit_id)}"
