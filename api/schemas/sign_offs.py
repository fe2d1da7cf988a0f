"""Sign-offs: what people state of reports."""

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, Field

from api.schemas.actors import Line
from api.schemas.base import Body
from fedaudit.ledger.sign_offs import Concern, Decision, sign_off_of
from models.person import tidy_paragraphs
from models.tables.sign_offs import SignOff


def _tidy(text: str) -> str:
    return tidy_paragraphs(text, what="the note")


Note = Annotated[str, Field(max_length=4000), AfterValidator(_tidy)]
SignOffFilter = Literal["approved", "rejected", "needs-changes", "none"]


class SignOffRequest(Body):
    """What the caller states of a report; in whose name, the key says."""

    decision: Decision
    note: Note = ""
    """Why; needed where the report's gates did not pass or its guarantee is not in force."""
    role: Line | None = None
    """In what capacity; that of the key's person unless given."""
    report_hash: Annotated[str, Field(pattern="^[0-9a-f]{64}$")] | None = None
    """Of the report that was read: refused where it is another one."""


class SignOffBody(BaseModel):
    """A sign-off of a report."""

    number: int
    decision: Decision
    note: str
    role: str | None
    """In what capacity, by the signer's own words."""
    person: str
    """As named by the key's administrator."""
    key_id: str
    key_name: str
    by_submitter: bool | None
    """Whether the same key or name submitted the experiment; null where no name was recorded."""
    concerns: list[Concern]
    """What the report had against being relied on."""
    report_hash: str
    signed_off_at: datetime
    envelope: dict[str, Any] | None
    """The same, chained to the one before and signed by the service (DSSE); null until it is."""

    @classmethod
    def of(cls, row: SignOff) -> Self:
        """The body of a stored sign-off. Raises ValueError where the row is no sign-off."""
        return cls.model_validate({**sign_off_of(row.statement).fields(), "envelope": row.envelope})


class SignOffList(BaseModel):
    """A report's sign-offs, oldest first."""

    items: list[SignOffBody]
    unreadable: int
    """Stored ones that are no sign-offs any more: the verification names what was altered."""
    next_cursor: str | None = None

    @classmethod
    def of(cls, rows: Sequence[SignOff]) -> Self:
        """Of stored ones."""
        items = []
        for row in rows:
            with suppress(ValueError):
                items.append(SignOffBody.of(row))
        return cls(items=items, unreadable=len(rows) - len(items))


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

    @classmethod
    def of(cls, row: SignOff) -> Self:
        """Of a stored one. Raises ValueError where the row is no sign-off."""
        fields = sign_off_of(row.statement).fields()
        return cls.model_validate({name: fields[name] for name in cls.model_fields})
