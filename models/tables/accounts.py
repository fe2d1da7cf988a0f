"""Projects, keys and sessions, repeated requests, who changed what, duties, and webhooks."""

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, ForeignKey, Index, String
from sqlalchemy.orm import Mapped, mapped_column

from models.tables.base import Base, Identifier, ProjectRow, Word, written_time
from models.values import DeliveryState


class Project(Base):
    """A tenant: every other row belongs to one."""

    __tablename__ = "projects"

    id: Mapped[str] = mapped_column(Identifier, primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    created_at: Mapped[datetime]


class ApiKey(ProjectRow):
    """A key of one project. The key itself is never stored, only its SHA-256. A person who signs in
    elsewhere has a row in each of their projects that no secret opens, and no scopes: these follow
    from their groups at each request."""

    __tablename__ = "api_keys"

    project_id: Mapped[str] = mapped_column(ForeignKey("projects.id"), index=True)
    name: Mapped[str]
    prefix: Mapped[str] = mapped_column(String(16))
    """The key's first characters, to distinguish keys in a list."""
    hash: Mapped[str] = mapped_column(String(64), unique=True)
    previous_hash: Mapped[str | None] = mapped_column(String(64), unique=True)
    """Hash of the secret that was replaced last; it opens until `previous_until`."""
    previous_until: Mapped[datetime | None]
    rotated_at: Mapped[datetime | None]
    scopes: Mapped[list[Any]]
    person: Mapped[dict[str, Any] | None]
    """Its person, as named by its maker; never changed. Null for a key without a person. With an
    identity: as its provider named them last."""
    identity: Mapped[dict[str, Any] | None]
    """Issuer and subject of a person who signs in elsewhere; null for a key."""
    created_at: Mapped[datetime]
    created_by: Mapped[dict[str, Any] | None]
    """The actor who made it over HTTP; null for one that was made on the database itself."""
    revoked_at: Mapped[datetime | None]


class WebSession(Base):
    """One browser. The token in its cookie is never stored, only its SHA-256."""

    __tablename__ = "web_sessions"

    token_hash: Mapped[str] = mapped_column(String(64), primary_key=True)
    api_key_id: Mapped[str] = mapped_column(ForeignKey("api_keys.id"))
    project_id: Mapped[str] = mapped_column(ForeignKey("projects.id"))
    key_hash: Mapped[str | None] = mapped_column(String(64))
    """Hash of the secret that it begins and ends with; without one it is not in force."""
    groups: Mapped[list[Any] | None]
    """Groups, at the sign-in, of a person who signed in elsewhere; null with a key."""
    created_at: Mapped[datetime]
    expires_at: Mapped[datetime] = mapped_column(index=True)


class IdempotencyKey(Base):
    """One caller's key on one route; the same key elsewhere is another key."""

    __tablename__ = "idempotency_keys"

    api_key_id: Mapped[str] = mapped_column(ForeignKey("api_keys.id"), primary_key=True)
    route: Mapped[str] = mapped_column(String(255), primary_key=True)
    key: Mapped[str] = mapped_column(String(255), primary_key=True)
    project_id: Mapped[str] = mapped_column(ForeignKey("projects.id"))
    body_hash: Mapped[str] = mapped_column(String(64))
    resource_id: Mapped[str | None] = mapped_column(String(36))
    created_at: Mapped[datetime] = mapped_column(index=True)


class RequestMinute(Base):
    """One minute of a project; kept while it is counted, and hardly longer."""

    __tablename__ = "request_minutes"

    project_id: Mapped[str] = mapped_column(ForeignKey("projects.id"), primary_key=True)
    minute: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    """Since 1970, in UTC."""
    requests: Mapped[int]


class AuditEntry(Base):
    """One deed. Rows are only ever inserted, and outlive what they are about."""

    __tablename__ = "audit_entries"
    __table_args__ = (
        Index("ix_audit_entries_action", "project_id", "action", "number"),
        Index("ix_audit_entries_key_id", "project_id", "key_id", "number"),
        Index("ix_audit_entries_subject", "project_id", "subject", "number"),
    )

    project_id: Mapped[str] = mapped_column(ForeignKey("projects.id"), primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    """Counts from 1, without gaps."""
    at: Mapped[datetime]
    action: Mapped[str] = mapped_column(Word)
    subject: Mapped[str]
    """What it was done to, by id."""
    origin: Mapped[str] = mapped_column(Word)
    key_id: Mapped[str | None] = mapped_column(Identifier)
    """Null where no key was used: by the sweeper, or on the database itself."""
    key_name: Mapped[str | None]
    person: Mapped[str | None]
    """The person that the key named then; null for a key without a person."""
    details: Mapped[dict[str, Any]]
    """Ids, names and settings; never a secret, a spec or a value of a cell."""
    link: Mapped[str] = mapped_column(String(64))

    def content(self) -> dict[str, Any]:
        """All that its link covers, as it is hashed and shown."""
        names = ("number", "action", "subject", "origin", "key_id", "key_name", "person", "details")
        return {"at": written_time(self.at), **{name: getattr(self, name) for name in names}}


class AuditHead(Base):
    """How far a project's log reaches, and how far it is signed."""

    __tablename__ = "audit_heads"

    project_id: Mapped[str] = mapped_column(ForeignKey("projects.id"), primary_key=True)
    entries: Mapped[int]
    link: Mapped[str] = mapped_column(String(64))
    """Link of the newest entry."""
    signed_entries: Mapped[int]
    envelope: Mapped[dict[str, Any] | None]
    """The newest signed head (DSSE); null until there is one."""
    signed_at: Mapped[datetime | None]


class SweeperLease(Base):
    """A named duty and who has it, until when."""

    __tablename__ = "sweeper_leases"

    name: Mapped[str] = mapped_column(Word, primary_key=True)
    holder: Mapped[str]
    lease_until: Mapped[datetime]


class WebhookEndpoint(ProjectRow):
    """One registered address with its secrets, which are encrypted."""

    __tablename__ = "webhook_endpoints"

    project_id: Mapped[str] = mapped_column(ForeignKey("projects.id"), index=True)
    url: Mapped[str]
    description: Mapped[str]
    events: Mapped[list[Any]]
    """The subscribed types (`WebhookEvent`)."""
    secret: Mapped[str]
    previous_secret: Mapped[str | None]
    previous_until: Mapped[datetime | None]
    """When the previous secret stops signing."""
    disabled_at: Mapped[datetime | None]
    """Null: enabled."""
    disabled_reason: Mapped[str | None]
    failing_since: Mapped[datetime | None]
    """The first failed attempt since the last that succeeded."""
    created_at: Mapped[datetime]
    created_by: Mapped[dict[str, Any]]
    updated_at: Mapped[datetime]
    updated_by: Mapped[dict[str, Any] | None]
    """The actor of the last change; null where the service itself made it."""


class WebhookDelivery(ProjectRow):
    """One event for one endpoint; it is sent at least once, always under the same message id."""

    __tablename__ = "webhook_deliveries"
    __table_args__ = (
        Index("ix_webhook_deliveries_state_available_at", "state", "available_at"),
        Index("ix_webhook_deliveries_endpoint_id_id", "endpoint_id", "id"),
        Index("ix_webhook_deliveries_created_at", "created_at"),
    )

    endpoint_id: Mapped[str] = mapped_column(ForeignKey("webhook_endpoints.id"))
    project_id: Mapped[str] = mapped_column(Identifier)
    message_id: Mapped[str] = mapped_column(Word)
    """The header `webhook-id`: the same for all endpoints of the event."""
    type: Mapped[str] = mapped_column(Word)
    payload: Mapped[dict[str, Any]]
    state: Mapped[DeliveryState] = mapped_column(Word)
    attempts: Mapped[int]
    """Rises with every claim, so that it is a fence as well."""
    retries: Mapped[int]
    """How many pauses of the schedule have been used; from the start where it is sent again."""
    available_at: Mapped[datetime]
    lease_until: Mapped[datetime | None]
    attempted_at: Mapped[datetime | None]
    status_code: Mapped[int | None]
    """Status of the last attempt; null if there was no response."""
    duration_seconds: Mapped[float | None]
    error: Mapped[str | None]
    created_at: Mapped[datetime]
    ended_at: Mapped[datetime | None]
