"""Public signing keys."""

from datetime import datetime
from typing import Self

from pydantic import BaseModel

from models.tables.signing import SigningKey


class SigningKeyBody(BaseModel):
    """One key."""

    key_id: str
    """SHA-256 of the raw public key, in hexadecimal."""
    algorithm: str
    public_key: str
    """PEM."""
    created_at: datetime
    """When the service first used it."""
    retired_at: datetime | None
    """When another key took its place; what it signed before stays signed."""
    compromised_at: datetime | None
    """From when on others may have signed with it: what it signed proves nothing, since whoever
    has it can state any time. Null for a key of which nobody said so."""
    compromised_note: str | None

    @classmethod
    def of(cls, key: SigningKey) -> Self:
        """The body of a stored key."""
        return cls(**{name: getattr(key, name) for name in SigningKeyBody.model_fields})


class SigningKeyList(BaseModel):
    """The service's keys, oldest first."""

    items: list[SigningKeyBody]
    next_cursor: str | None = None
    """Null: there is one page."""
