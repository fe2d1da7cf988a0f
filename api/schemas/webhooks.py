"""Webhooks: where a project's events are sent, and what was sent there."""

from datetime import UTC, datetime
from typing import Annotated, Self

from pydantic import AfterValidator, BaseModel, Field

from api.schemas.base import Body, Parameters, of_row
from api.schemas.people import ActorBody
from infrastructure.outbound import MAX_URL_CHARACTERS
from models.person import tidy_paragraphs
from models.tables.operations import WebhookDelivery, WebhookEndpoint
from models.vocabulary import WEBHOOK_EVENTS, DeliveryState, WebhookEvent

_DAY = 86400


def _tidy(text: str) -> str:
    return tidy_paragraphs(text, what="the description")


Url = Annotated[str, Field(min_length=1, max_length=MAX_URL_CHARACTERS)]
Events = Annotated[list[WebhookEvent], Field(min_length=1, max_length=len(WEBHOOK_EVENTS))]
Description = Annotated[str, Field(max_length=500), AfterValidator(_tidy)]


class WebhookRequest(Body):
    """An address to be told of events."""

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


class RotationParameters(Parameters):
    """How a secret is replaced."""

    overlap_seconds: Annotated[int, Field(ge=0, le=7 * _DAY)] = _DAY
    """For how long deliveries are signed with the old secret as well; 0 ends it at once."""


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
    """Until when deliveries are signed with the secret before as well; null where they are not."""
    created_at: datetime
    created_by: ActorBody
    updated_at: datetime
    updated_by: ActorBody | None
    """Null where the service itself disabled it."""

    @classmethod
    def of(cls, row: WebhookEndpoint) -> Self:
        """The body of a stored endpoint."""
        until = row.previous_until
        valid = until if until and until > datetime.now(UTC) else None
        return of_row(cls, row, enabled=row.disabled_at is None, previous_secret_until=valid)


class NewSecretBody(WebhookBody):
    """A registered address with a secret that was just made."""

    secret: str
    """`whsec_` and base64: shown this once, and stored encrypted."""


class WebhookPage(BaseModel):
    """Some of the project's registered addresses, oldest first."""

    items: list[WebhookBody]
    next_cursor: str | None


class DeliveryBody(BaseModel):
    """One event for one address."""

    id: str
    message_id: str
    """The header `webhook-id`: the same in every attempt."""
    event: str
    data: dict[str, object]
    """As it is sent: ids and outcomes."""
    state: DeliveryState
    attempts: int
    """How many were begun, those that ended with their process included."""
    attempted_at: datetime | None
    status_code: int | None
    """Of the last attempt, as are the two below; null where nobody answered."""
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


class DeliveryPage(BaseModel):
    """Some deliveries to one address, newest first; they are kept for 30 days."""

    items: list[DeliveryBody]
    next_cursor: str | None
