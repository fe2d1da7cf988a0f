"""Calls on audits of predictions, and on attacks after a report was signed."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import IO, Any

from fedaudit_client.http.calls import Calls, call, pages, steps, stream
from fedaudit_client.http.request import (
    Json,
    Request,
    content,
    experiment_path,
    json_as,
    json_object,
    once,
    path_part,
    text,
)
from fedaudit_client.http.wire import last_of, polled
from fedaudit_client.result_types import Audit, AuditVerification, LaterAttacks

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


_LATER_ENDED = ("cancelled", "succeeded", "failed")


class AttackCalls(Calls):
    """Attacks on an experiment: those of its spec, and those that are asked for later."""

    @call
    def attacks(self, experiment_id: str) -> Request[dict[str, Any]]:
        """The attacks of the experiment's report as `items`: `position`, `section`, `files`."""
        return Request("GET", f"{experiment_path(experiment_id)}/attacks", json_as(dict[str, Any]))

    @stream
    def attack_file(
        self, experiment_id: str, position: int, name: str
    ) -> AsyncGenerator[bytes, None]:
        """A file of an attack, as its bytes come."""
        path = f"{experiment_path(experiment_id)}/attacks/{position}/{path_part(name)}"
        return self._wire.read(Request("GET", path, content))

    @call
    def attack(
        self,
        experiment_id: str,
        attacks: Sequence[Mapping[str, Any]],
        *,
        idempotency_key: str | None = None,
    ) -> Request[LaterAttacks]:
        """Attack an experiment that has succeeded: its report stays, and what is found counts.

        `attacks`: as in a spec. Tried again where no answer comes, as `submit` is.
        """
        body = {"json": {"attacks": [dict(one) for one in attacks]}}
        path = f"{experiment_path(experiment_id)}/attacks"
        answer = json_as(LaterAttacks)
        return Request("POST", path, answer, body=body, **once(idempotency_key))

    @call
    def later_attacks(self, experiment_id: str) -> Request[dict[str, Any]]:
        """Every request for attacks after the report was signed, oldest first, as `items`."""
        path = f"{experiment_path(experiment_id)}/attacks/later"
        return Request("GET", path, json_as(dict[str, Any]))

    @call
    def later_attack(self, experiment_id: str, later_id: str) -> Request[LaterAttacks]:
        """One of them."""
        return _one_request(experiment_id, later_id)

    @steps
    async def wait_attack(
        self, experiment_id: str, later_id: str, *, patience_seconds: float = 60.0
    ) -> LaterAttacks:
        """The request, once it has ended, however long it takes.

        Raises UnreachableError, or ProblemError, after `patience_seconds` without the service.
        """
        answers = polled(
            self._wire,
            _one_request(experiment_id, later_id),
            has_ended=_later_ended,
            patience_seconds=patience_seconds,
        )
        return await last_of(answers)

    @call
    def cancel_attack(self, experiment_id: str, later_id: str) -> Request[LaterAttacks]:
        """Ask for an end; what was found by then stays, and counts."""
        path = f"{_request_path(experiment_id, later_id)}/cancel"
        return Request("POST", path, json_as(LaterAttacks))

    @stream
    def later_attack_file(
        self, experiment_id: str, later_id: str, position: int, name: str
    ) -> AsyncGenerator[bytes, None]:
        """A file of an attack that was asked for later, as its bytes come."""
        path = f"{_request_path(experiment_id, later_id)}/{position}/{path_part(name)}"
        return self._wire.read(Request("GET", path, content))


def _later_ended(found: LaterAttacks) -> bool:
    return found["status"] in _LATER_ENDED


def _one_request(experiment_id: str, later_id: str) -> Request[LaterAttacks]:
    return Request("GET", _request_path(experiment_id, later_id), json_as(LaterAttacks))


def _request_path(experiment_id: str, later_id: str) -> str:
    return f"{experiment_path(experiment_id)}/attacks/later/{path_part(later_id)}"
