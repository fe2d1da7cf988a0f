"""Audits of predictions: how they stand."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, Self

from pydantic import BaseModel

from api.schemas.actors import ActorBody
from api.schemas.base import Reasons
from api.schemas.experiment_tables import Check
from models.tables.audits.audits import PredictionAudit
from models.values import AuditStatus


class AuditFault(BaseModel):
    """What of the data does not fit the audit."""

    pointer: str
    """The field that was sent."""
    message: str


class AuditBody(BaseModel):
    """One audit."""

    id: str
    name: str
    status: AuditStatus
    status_reason: str | None
    """Of a failed audit: `invalid-data`, `figures-disagree`, `worker-error` or `worker-lost`."""
    errors: list[AuditFault]
    """What is to be mended, every fault at once."""
    spec: dict[str, Any]
    """What was asked for, with every default explicit."""
    spec_hash: str
    data_fingerprint: str
    gate_outcome: str | None
    """Null before there is a report, and without gates."""
    created_at: datetime
    created_by: ActorBody | None
    started_at: datetime | None
    finished_at: datetime | None

    @classmethod
    def of(
        cls,
        row: PredictionAudit,
        *,
        faults: Sequence[Mapping[str, Any]],
    ) -> Self:
        """The body of a stored audit; `faults` are those that its reader may see."""
        return cls(
            id=row.id,
            name=row.name,
            status=row.status,
            status_reason=row.status_reason,
            errors=[AuditFault(pointer=one["pointer"], message=one["message"]) for one in faults],
            spec=row.spec,
            spec_hash=row.spec_hash,
            data_fingerprint=row.fingerprint,
            gate_outcome=row.gate_outcome,
            created_at=row.created_at,
            created_by=(
                None if row.created_by is None else ActorBody.model_validate(row.created_by)
            ),
            started_at=row.started_at,
            finished_at=row.finished_at,
        )


class AuditPage(BaseModel):
    """Audits, newest first."""

    items: list[AuditBody]
    next_cursor: str | None


class AuditVerification(BaseModel):
    """What was found when an audit's report was checked: its signature, and what follows from the
    figures that it publishes."""

    audit_id: str
    valid: bool
    """Whether no check failed."""
    verdict: Literal["valid", "consistent, signer untrusted", "altered"]
    """Never `valid` here: take a bundle, and the key from somebody else than this service."""
    checks: list[Check]
    not_verified: list[str]
    """What no check can say, since the rows are not kept with the report."""
    signature: str | None
    key_id: str | None
    reasons: Reasons
