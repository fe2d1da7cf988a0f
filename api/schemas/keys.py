"""API keys."""

from datetime import datetime
from typing import Annotated, Self

from pydantic import BaseModel, Field

from api.schemas.base import Body
from api.shared.security import Scope
from fedaudit.spec.base import Text
from models.tables.api_keys import ApiKey


class KeyBody(BaseModel):
    """A key without its secret."""

    id: str
    name: str
    prefix: str
    """Its first characters, to distinguish keys."""
    scopes: list[str]
    created_at: datetime
    revoked_at: datetime | None

    @classmethod
    def of(cls, key: ApiKey) -> Self:
        """The body of a stored key."""
        return cls(**{name: getattr(key, name) for name in KeyBody.model_fields})


class NewKeyBody(KeyBody):
    """A key that was just made."""

    key: str
    """The secret: shown this once and stored as a hash."""


class KeyList(BaseModel):
    """The project's keys, also the revoked ones, oldest first."""

    items: list[KeyBody]
    next_cursor: None = None


class KeyRequest(Body):
    """A key to be made."""

    name: Text
    scopes: Annotated[list[Scope], Field(min_length=1, max_length=20)]
