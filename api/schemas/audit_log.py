"""The audit log."""

from typing import Annotated, Any, Self

from pydantic import BaseModel, Field

from api.schemas.base import PageParameters, UtcTime
from models.audit_actions import AuditAction, AuditOrigin
from models.tables.audit_log.audit_entries import AuditEntry


class AuditLogParameters(PageParameters):
    """Which entries of the log."""

    actor: Annotated[
        str | None, Field(max_length=400, description="A key's id or name, or a person's name.")
    ] = None
    action: AuditAction | None = None
    subject: Annotated[
        str | None, Field(max_length=400, description="What it was done to, by its id or name.")
    ] = None
    created_after: UtcTime | None = None
    created_before: UtcTime | None = None


class AuditEntryBody(BaseModel):
    """One deed, as its link covers it."""

    number: int
    """From 1 within the project, without gaps."""
    at: str
    """By the service's clock, in UTC, to the microsecond as it is hashed."""
    action: AuditAction
    subject: str
    """What it was done to: an id, or a policy's name."""
    origin: AuditOrigin
    key_id: str | None
    """Null where no key was used: by the sweeper, or on the database itself."""
    key_name: str | None
    person: str | None
    """As the key named them then; null for a key that names nobody."""
    details: dict[str, Any]
    link: str

    @classmethod
    def of(cls, row: AuditEntry) -> Self:
        """The body of a stored entry."""
        return cls(**row.content(), link=row.link)


class AuditLogPage(BaseModel):
    """Some entries, newest first. What was done before the log began is not among them."""

    items: list[AuditEntryBody]
    next_cursor: str | None


class AuditLogVerification(BaseModel):
    """Whether the log is what was written, as far as the service can tell by itself."""

    project_id: str
    entries: int
    """How many follow from the first."""
    link: str
    """Of the last of them."""
    valid: bool
    faults: list[str]
    signed_entries: int
    """How many the newest signed head covers; later ones wait for the sweeper."""
    signed_head: dict[str, Any] | None
    """That head (DSSE): keep it elsewhere, since only a kept one shows that entries it covers were
    cut off or written anew."""
