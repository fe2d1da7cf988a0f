"""People behind keys, what they did and stated, and the webhooks that announce it."""

from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, Field, field_validator

from api.schemas.base import Body, Page, PageParameters, Parameters, UtcTime, of_row
from fedaudit.ledger.statements import Concern, Decision
from fedaudit.ledger.statements import SignOff as Statement
from fedaudit.spec.base import Text, stands_for
from infrastructure.outbound import MAX_URL_CHARACTERS
from models.person import MAX_CHARACTERS, mail_address, tidy_line, tidy_paragraphs
from models.tables.accounts import AuditEntry, WebhookDelivery, WebhookEndpoint
from models.tables.experiments import SignOff
from models.values import (
    WEBHOOK_EVENTS,
    AuditAction,
    AuditOrigin,
    DeliveryState,
    ProjectScope,
    WebhookEvent,
    useless_scopes,
)

Line = Annotated[
    str,
    Field(min_length=1, max_length=MAX_CHARACTERS),
    AfterValidator(partial(tidy_line, what="the text")),
]
"""One line of text that shows all its characters."""
Address = Annotated[
    str, Field(min_length=1, max_length=MAX_CHARACTERS), AfterValidator(mail_address)
]


class EnvelopeBody(BaseModel):
    """What the service signed, in an envelope (DSSE)."""

    payload_type: Annotated[str, Field(alias="payloadType")]
    payload: str
    """Canonical JSON, in base64."""
    signatures: list[dict[Literal["keyid", "sig"], str]]
    """One: the key's id, and the signature in base64."""


SignedEnvelope = Annotated[dict[str, Any], stands_for(EnvelopeBody)]


class PersonBody(BaseModel):
    """Whom a key belongs to, as named by the key's administrator."""

    name: str
    email: str | None
    role: str | None


class PersonRequest(Body):
    """Whom a key is to belong to."""

    name: Line
    email: Address | None = None
    role: Line | None = None


class ActorBody(BaseModel):
    """Who did something: the key, and its person as named at that time by its administrator."""

    key_id: str
    key_name: str
    person: str | None
    """Null for a key that names no one."""


class ChangeBody(BaseModel):
    """One change of what is set."""

    setting: Literal["budget", "disclosure", "simulation"]
    value: dict[str, Any] | None
    """What holds from then on; null where it was removed."""
    changed_by: ActorBody
    changed_at: datetime

    @classmethod
    def of(cls, entry: AuditEntry) -> Self:
        """The change that an entry of the audit log is about."""
        setting, value = entry.action.removesuffix(".set"), entry.details["value"]
        return of_row(
            cls, entry, setting=setting, value=value, changed_by=entry, changed_at=entry.at
        )


class ChangePage(Page[ChangeBody]):
    """Some changes, newest first. What was set before changes were recorded is not among them."""


_DAY = 86400


class KeyBody(BaseModel):
    """A key without its secret."""

    id: str
    name: str
    prefix: str
    """Its first characters, to distinguish keys."""
    scopes: list[str]
    person: PersonBody | None
    """Whom it belongs to, as named by the administrator who made it, or by the provider of an
    identity; null without one."""
    created_at: datetime
    created_by: ActorBody | None
    """Who made it, and named its person; null for one that was made on the database itself, or
    before that was recorded."""
    rotated_at: datetime | None
    """When its secret was replaced last."""
    previous_until: datetime | None
    """When the previous secret stops opening the key; null where it stopped at once, or there is
    none."""
    revoked_at: datetime | None


class KeyWithSecretBody(KeyBody):
    """A key that was just made."""

    key: str
    """The secret: shown this once and stored as a hash."""


class KeyList(Page[KeyBody]):
    """The project's keys, also the revoked ones, oldest first, on one page."""


class KeyRequest(Body):
    """A key to be made."""

    name: Text
    scopes: Annotated[list[ProjectScope], Field(min_length=1, max_length=20)]
    person: PersonRequest | None = None
    """Whom it is for. It cannot be changed afterwards: make another key, and revoke this one."""

    @field_validator("scopes")
    @classmethod
    def _each_opens_something(cls, scopes: list[ProjectScope]) -> list[ProjectScope]:
        if useless := useless_scopes(scopes):
            raise ValueError(useless)
        return scopes


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
    """Counts from 1 within the project, without gaps."""
    at: str
    """Time by the service's clock, in UTC, to the microsecond that is hashed."""
    action: AuditAction
    subject: str
    """What it was done to, by id."""
    origin: AuditOrigin
    key_id: str | None
    """Null where no key was used: by the sweeper, or on the database itself."""
    key_name: str | None
    person: str | None
    """The person that the key named then; null for a key that names no one."""
    details: dict[str, Any]
    link: str


class AuditLogPage(Page[AuditEntryBody]):
    """Some entries, newest first. What was done before the log began is not among them."""


class AuditLogVerification(BaseModel):
    """Whether the log is what was written, as far as the service can check by itself."""

    project_id: str
    entries: int
    """How many follow from the first."""
    link: str
    """Link of the last of them."""
    valid: bool
    faults: list[str]
    signed_entries: int
    """How many the newest signed head covers; later ones wait for the sweeper."""
    signed_head: SignedEnvelope | None
    """That head (DSSE): keep it elsewhere, since only a kept one shows that entries it covers were
    cut off or written anew."""


Note = Annotated[
    str, Field(max_length=4000), AfterValidator(partial(tidy_paragraphs, what="the note"))
]
SignOffFilter = Literal["approved", "rejected", "needs-changes", "none"]


class SignOffRequest(Body):
    """What the caller states of a report; in whose name, the key says."""

    decision: Decision
    note: Note = ""
    """Why; needed where the report's gates did not pass or its guarantee is not in force."""
    role: Line | None = None
    """Capacity of the signer; that of the key's person unless given."""
    report_hash: Annotated[str, Field(pattern="^[0-9a-f]{64}$")] | None = None
    """Hash of the report that was read; the sign-off of any other report is refused."""


class SignOffBody(BaseModel):
    """A sign-off of a report."""

    number: int
    decision: Decision
    note: str
    role: str | None
    """Capacity in the signer's own words."""
    person: str
    """Name that the key's administrator gave."""
    key_id: str
    key_name: str
    by_submitter: bool | None
    """Whether the same key or name submitted the experiment; null where no name was recorded."""
    concerns: list[Concern]
    """What the report had against being relied on."""
    report_hash: str
    signed_off_at: datetime
    envelope: SignedEnvelope | None
    """The same, chained to the one before and signed by the service (DSSE); null until it is."""

    @classmethod
    def of(cls, row: SignOff) -> Self:
        """The body of a stored sign-off. Raises ValueError where the row is no sign-off."""
        return of_row(cls, Statement.of_fields(row.statement), envelope=row.envelope)


class SignOffList(Page[SignOffBody]):
    """A report's sign-offs, oldest first, on one page."""

    unreadable: int
    """Stored ones that are no sign-offs any more: the verification names what was altered."""

    @classmethod
    def of(cls, rows: Sequence[SignOff]) -> Self:
        """Return the body of stored sign-offs."""
        items = []
        for row in rows:
            with suppress(ValueError):
                items.append(SignOffBody.of(row))
        return cls(items=items, unreadable=len(rows) - len(items), next_cursor=None)


class NewestSignOff(BaseModel):
    """The newest sign-off of a report in a list."""

    number: int
    """There are as many."""
    decision: Decision
    person: str
    role: str | None
    concerns: list[Concern]
    by_submitter: bool | None
    signed_off_at: datetime


Url = Annotated[
    str,
    Field(
        min_length=1, max_length=MAX_URL_CHARACTERS, json_schema_extra={"pattern": "^https?://."}
    ),
]
Events = Annotated[list[WebhookEvent], Field(min_length=1, max_length=len(WEBHOOK_EVENTS))]
Description = Annotated[
    str, Field(max_length=500), AfterValidator(partial(tidy_paragraphs, what="the description"))
]


class WebhookRequest(Body):
    """An address that is notified of events."""

    url: Url
    """https:// or http://; redirects from there are not followed."""
    events: Events
    description: Description = ""


class WebhookChange(Body):
    """What is to be different; what is left out stays."""

    url: Url | None = None
    events: Events | None = None
    description: Description | None = None
    enabled: bool | None = None
    """True lets what waits be sent, also after the service itself has disabled it."""


_OVERLAP = "For how long the old secret opens the key too, or signs deliveries; 0 ends it at once."


class RotationParameters(Parameters):
    """How a secret is replaced."""

    overlap_seconds: Annotated[int, Field(ge=0, le=7 * _DAY, description=_OVERLAP)] = _DAY


class WebhookBody(BaseModel):
    """A registered address, without its secret."""

    id: str
    url: str
    events: list[str]
    description: str
    enabled: bool
    disabled_at: datetime | None
    disabled_reason: str | None
    """Why it is disabled, and by whom; null while it is enabled."""
    failing_since: datetime | None
    """The first failed attempt since the last that succeeded; null where the last one did."""
    previous_secret_until: datetime | None
    """When the previous secret stops signing deliveries too; null where it does not sign."""
    created_at: datetime
    created_by: ActorBody
    updated_at: datetime
    updated_by: ActorBody | None
    """Null where the service itself disabled it."""

    @classmethod
    def of(cls, row: WebhookEndpoint, **more: Any) -> Self:
        """The body of a stored endpoint."""
        until, enabled = row.previous_until, row.disabled_at is None
        valid = until if until and until > datetime.now(UTC) else None
        return of_row(cls, row, enabled=enabled, previous_secret_until=valid, **more)


class NewSecretBody(WebhookBody):
    """A registered address with a secret that was just made."""

    secret: str
    """`whsec_` and base64: shown this once, and stored encrypted."""


class WebhookPage(Page[WebhookBody]):
    """Some of the project's registered addresses, oldest first."""


class DeliveryBody(BaseModel):
    """One event for one address."""

    id: str
    message_id: str
    """The header `webhook-id`: the same in every attempt."""
    event: str
    data: dict[str, object]
    """The content that is sent: ids and outcomes."""
    state: DeliveryState
    attempts: int
    """How many were begun, those that ended with their process included."""
    attempted_at: datetime | None
    status_code: int | None
    """Status of the last attempt, as are the two below; null where no answer came."""
    duration_seconds: float | None
    error: str | None
    next_attempt_at: datetime | None
    """Null where none is planned."""
    created_at: datetime
    ended_at: datetime | None

    @classmethod
    def of(cls, row: WebhookDelivery) -> Self:
        """The body of a stored delivery."""
        planned = row.available_at if row.state == "waiting" else None
        data = row.payload["data"]
        return of_row(cls, row, event=row.type, data=data, next_attempt_at=planned)


class DeliveryPage(Page[DeliveryBody]):
    """Some deliveries to one address, newest first; they are kept for 30 days."""
