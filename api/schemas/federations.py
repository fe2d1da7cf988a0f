"""Federations and the budgets on their data."""

from datetime import datetime
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, Field, model_validator
from pydantic_core import PydanticCustomError

from api.http.problems import ProblemFault
from api.schemas.base import Body, PageParameters
from fedaudit.privacy.accounting.observers import observer_words
from fedaudit.privacy.accounting.privacy_events import Adjacency, Observer
from models.tables.federations import Federation
from models.values import Budget, BudgetFigure, FederationStatus, Gap

_MAX_VALUE = 1e300


class FederationBody(BaseModel):
    """One federation: the clients' data, known by its fingerprint."""

    id: str
    name: str
    source: str
    status: FederationStatus
    fingerprint: str
    """SHA-256 of the file's content, gzip undone."""
    file_name: str | None
    size_bytes: int | None
    """Of the file as it was sent, perhaps compressed."""
    registration: dict[str, Any] | None
    """Null where nobody registered it, and experiments named the file by its path."""
    reasons: list[ProblemFault]
    """Why it was rejected."""
    clients: int | None
    rows: int | None
    profile: dict[str, Any] | None
    """Null unless it is ready, and for keys without the scope federations:read."""
    created_at: datetime
    profiled_at: datetime | None
    deleted_at: datetime | None

    @classmethod
    def of(cls, row: Federation, *, reasons: list[dict[str, Any]], profile: bool) -> Self:
        """The body of a stored federation.

        `reasons` and `profile`: what its reader may see of why it was rejected, and whether of
        what its data look like.
        """
        same = {name: getattr(row, name) for name in cls.model_fields if hasattr(row, name)}
        return cls(
            **{
                **same,
                "reasons": reasons,
                "clients": row.profile.get("clients"),
                "rows": row.profile.get("rows"),
                "profile": shown_profile(row) if profile else None,
            }
        )


def shown_profile(row: Federation) -> dict[str, Any] | None:
    """A federation's profile for whoever may read federations; None where it has none.

    Of data that nobody registered the groups are left out: they are those of the experiment that
    came first, and earlier versions stored their sizes however small.
    """
    if not row.profile:
        return None
    if row.profiled_at is not None:
        return row.profile
    return {name: value for name, value in row.profile.items() if name != "attributes"}


class FederationParameters(PageParameters):
    """Which page of which federations."""

    status: FederationStatus | None = None


class FederationPage(BaseModel):
    """Some federations."""

    items: list[FederationBody]
    next_cursor: str | None


class UncountedRuns(BaseModel):
    """Experiments on the same data, in the same book, that a budget's figures leave out."""

    mechanism: str
    runs: int
    why: str


class BudgetBody(BaseModel):
    """One budget; `total` is null where nobody has set a bound.

    An epsilon is composed over experiments and not added up: `reserved` is what all that is held
    adds to what is `spent`.
    """

    book: str
    figure: BudgetFigure
    delta: float | None
    adjacency: str | None
    observer: str | None
    total: float | None
    reserved: float
    spent: float
    remaining: float | None
    """Of what this budget can count. It is not all that was spent where `uncounted` has runs."""
    unit: str | None
    """Of an epsilon: `client` or `record`, whom the figures are about; null of anything else, and
    where nothing is counted."""
    uncounted: list[UncountedRuns]
    reason: str | None
    """Why `total` and `remaining` are null."""

    @classmethod
    def of(cls, budget: Budget) -> Self:
        """The body of a budget."""
        reason = "no total is set" if budget.total is None else None
        uncounted = [
            UncountedRuns(mechanism=one.mechanism, runs=one.runs, why=_why(budget, one.why))
            for one in budget.uncounted
        ]
        figures = {**vars(budget), "remaining": budget.remaining, "uncounted": uncounted}
        return cls(**figures, reason=reason)


_OTHER_FIGURE: dict[BudgetFigure, str] = {"epsilon": "leakage", "leakage": "an epsilon"}
"""What a cost is counted as that is not counted as the budget's figure."""


def _why(budget: Budget, gap: Gap) -> str:
    other = _OTHER_FIGURE[budget.figure]
    words: dict[Gap, str] = {
        "unbounded": "without noise nothing bounds what it reveals",
        "other-figure": f"its cost is counted as {other}, another figure that cannot be added",
        "other-adjacency": f"its figures are of another adjacency than {budget.adjacency}",
        "other-observer": f"it guarantees nothing against {observer_words(budget.observer or '')}",
        "other-unit": f"its figures are of another unit than a {budget.unit}, and the two cannot "
        "be composed",
    }
    return words[gap]


class BudgetList(BaseModel):
    """Every budget that was set or spent from."""

    items: list[BudgetBody]


_HAS_PARTS: dict[BudgetFigure, bool] = {"epsilon": True, "leakage": False}
"""Whether a figure means something only with a delta, an adjacency and an observer."""


class BudgetSetting(Body):
    """What may be spent of one figure in one book, in all."""

    book: Literal["simulation", "release"]
    figure: BudgetFigure
    total: Annotated[float, Field(ge=0, le=_MAX_VALUE)] | None
    """Null removes the bound; spending is booked all the same."""
    delta: Annotated[float, Field(gt=0, lt=1)] | None = None
    adjacency: Adjacency | None = None
    observer: Observer | None = None

    @model_validator(mode="after")
    def _figure_has_its_parts(self) -> Self:
        for field in ("delta", "adjacency", "observer"):
            given = getattr(self, field) is not None
            if given != _HAS_PARTS[self.figure]:
                message = (
                    "leakage is metric privacy and has none; leave it out"
                    if given
                    else "an epsilon means something only with it; give it"
                )
                context = {"pointer": f"/{field}", "message": message}
                raise PydanticCustomError("inconsistent", "{message}", context)
        return self
