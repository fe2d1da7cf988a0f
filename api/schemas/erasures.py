"""Erasures of federations."""

from datetime import datetime
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, Field

from api.schemas.actors import ActorBody
from api.schemas.base import Body
from fedaudit.ledger.erasure_receipt import what_remains
from models.tables.lifecycle.erasures import Erasure


class ErasureRequest(Body):
    """An erasure to be made."""

    reference: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    """What you call the request, such as its file number; it stands in the receipt."""


class ErasureBody(BaseModel):
    """One erasure: what it removed, what remains, and its signed receipt."""

    federation_id: str
    number: int
    """From 1; a federation that was registered anew may be erased again."""
    status: Literal["erasing", "erased"]
    """`erasing` while names and files are still being removed."""
    reference: str | None
    requested_at: datetime
    requested_by: ActorBody
    completed_at: datetime | None
    removed: dict[str, int]
    """How many of each thing, by name."""
    remains: dict[str, str]
    """What remains, and why."""
    ledgers: list[str]
    """Experiments, and ledgers of trainings elsewhere, whose clients have made-up names now."""
    files_left: int
    """Files that the storage is still to remove."""
    other_projects: int
    """Projects of this service that hold the same content, each to be erased by itself."""
    receipt: dict[str, Any] | None
    """The same as a signed envelope (DSSE), once it is done."""

    @classmethod
    def of(cls, row: Erasure) -> Self:
        """The body of a stored erasure."""
        return cls(
            federation_id=row.federation_id,
            number=row.number,
            status="erasing" if row.completed_at is None else "erased",
            reference=row.reference,
            requested_at=row.requested_at,
            requested_by=ActorBody(**row.requested_by),
            completed_at=row.completed_at,
            removed=row.removed,
            remains=what_remains(
                uploaded=bool(row.removed.get("uploaded_data")), others=row.others
            ),
            ledgers=list(row.ledgers),
            files_left=len(row.files),
            other_projects=row.others,
            receipt=row.envelope,
        )
