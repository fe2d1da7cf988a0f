"""People behind keys, and who did what."""

from datetime import datetime
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, Field

from api.schemas.base import Body
from models.person import MAX_CHARACTERS, Person, mail_address, tidy_line
from models.tables.setting_changes import SettingChange


def _tidy(text: str) -> str:
    return tidy_line(text, what="the text")


Line = Annotated[str, Field(min_length=1, max_length=MAX_CHARACTERS), AfterValidator(_tidy)]
"""One line of text that shows all its characters."""
Address = Annotated[
    str, Field(min_length=1, max_length=MAX_CHARACTERS), AfterValidator(mail_address)
]


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

    def stored(self) -> Person:
        """The person as it is kept."""
        return Person(self.name, email=self.email, role=self.role)


class ActorBody(BaseModel):
    """Who did something: the key, and its person as named at that time by its administrator."""

    key_id: str
    key_name: str
    person: str | None
    """Null for a key that names nobody."""


class ChangeBody(BaseModel):
    """One change of what is set."""

    setting: Literal["budget", "disclosure", "simulation", "gates"]
    value: dict[str, Any] | None
    """What holds from then on; null where it was removed."""
    changed_by: ActorBody
    changed_at: datetime

    @classmethod
    def of(cls, row: SettingChange) -> Self:
        """The body of a stored change."""
        return cls.model_validate({name: getattr(row, name) for name in cls.model_fields})


class ChangePage(BaseModel):
    """Some changes, newest first. What was set before changes were recorded is not among them."""

    items: list[ChangeBody]
    next_cursor: str | None
