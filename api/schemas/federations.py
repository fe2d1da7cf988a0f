"""Federations and the budgets on their data."""

from datetime import datetime
from typing import Annotated, Literal, Self

from pydantic import BaseModel, Field, model_validator
from pydantic_core import PydanticCustomError

from api.schemas.base import Body
from fedaudit.spec.base import Text
from models.records import Budget
from models.tables.federations import Federation

_LARGEST = 1e300


class FederationBody(BaseModel):
    """One federation: the clients' data, known by its fingerprint."""

    id: str
    name: str
    source: str
    status: str
    fingerprint: str
    clients: int | None
    rows: int | None
    created_at: datetime

    @classmethod
    def of(cls, row: Federation) -> Self:
        """The body of a stored federation."""
        return cls(
            id=row.id,
            name=row.name,
            source=row.source,
            status=row.status,
            fingerprint=row.fingerprint,
            clients=row.profile.get("clients"),
            rows=row.profile.get("rows"),
            created_at=row.created_at,
        )


class FederationPage(BaseModel):
    """Some federations."""

    items: list[FederationBody]
    next_cursor: str | None


class BudgetBody(BaseModel):
    """One budget; `total` is null where nobody has set a bound."""

    book: str
    figure: str
    delta: float | None
    adjacency: str | None
    observer: str | None
    total: float | None
    reserved: float
    spent: float
    remaining: float | None
    reason: str | None
    """Why `total` and `remaining` are null."""

    @classmethod
    def of(cls, budget: Budget) -> Self:
        """The body of a budget."""
        reason = "no total is set" if budget.total is None else None
        return cls(**vars(budget), remaining=budget.remaining, reason=reason)


class BudgetList(BaseModel):
    """Every budget that was set or spent from."""

    items: list[BudgetBody]


class BudgetSetting(Body):
    """What may be spent of one figure in one book, in all."""

    book: Literal["simulation", "release"]
    figure: Literal["leakage", "epsilon"]
    total: Annotated[float, Field(ge=0, le=_LARGEST)] | None
    """Null removes the bound; spending is booked all the same."""
    delta: Annotated[float, Field(gt=0, lt=1)] | None = None
    adjacency: Annotated[Text, Field(max_length=64)] | None = None
    observer: Annotated[Text, Field(max_length=64)] | None = None

    @model_validator(mode="after")
    def _figure_has_its_parts(self) -> Self:
        for field in ("delta", "adjacency", "observer"):
            given = getattr(self, field) is not None
            if given != (self.figure == "epsilon"):
                message = (
                    "leakage is metric privacy and has none; leave it out"
                    if given
                    else "an epsilon means something only with it; give it"
                )
                context = {"pointer": f"/{field}", "message": message}
                raise PydanticCustomError("inconsistent", "{message}", context)
        return self
