"""API keys."""

from datetime import datetime
from typing import Annotated, Self

from pydantic import BaseModel, Field

from api.schemas.actors import ActorBody, PersonBody, PersonRequest
from api.schemas.base import Body, Parameters
from fedaudit.spec.base import Text
from models.scopes import ProjectScope
from models.tables.api_keys import ApiKey

_DAY = 86400


class KeyBody(BaseModel):
    """A key without its secret."""

    id: str
    name: str
    prefix: str
    """Its first characters, to distinguish keys."""
    scopes: list[str]
    person: PersonBody | None
    """Whom it belongs to, as named by the administrator who made it; null where nobody was."""
    created_at: datetime
    created_by: ActorBody | None
    """Who made it, and named its person; null for one that was made on the database itself, or
    before that was recorded."""
    rotated_at: datetime | None
    """When its secret was replaced last."""
    previous_until: datetime | None
    """Until when the secret before it opens the key too; null where it ended at once, or there is
    none."""
    revoked_at: datetime | None

    @classmethod
    def of(cls, key: ApiKey) -> Self:
        """The body of a stored key."""
        return cls.model_validate({name: getattr(key, name) for name in KeyBody.model_fields})


class NewKeyBody(KeyBody):
    """A key that was just made."""

    key: str
    """The secret: shown this once and stored as a hash."""


class KeyList(BaseModel):
    """The project's keys, also the revoked ones, oldest first."""

    items: list[KeyBody]
    next_cursor: str | None = None
    """Null: there is one page."""


class KeyRotationParameters(Parameters):
    """How a key's secret is replaced."""

    overlap_seconds: Annotated[int, Field(ge=0, le=7 * _DAY)] = _DAY
    """For how long the old secret opens the key too; 0 ends it at once."""


class KeyRequest(Body):
    """A key to be made."""

    name: Text
    scopes: Annotated[list[ProjectScope], Field(min_length=1, max_length=20)]
    person: PersonRequest | None = None
    """Whom it is for. It cannot be changed afterwards: make another key, and revoke this one."""
