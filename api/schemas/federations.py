"""Federations and the budgets on their data."""

from datetime import datetime
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, Field, model_validator
from pydantic_core import PydanticCustomError

from api.http.problems import ProblemFault
from api.schemas.base import Body, PageParameters
from fedaudit.privacy.accounting.observers import observer_words
from fedaudit.privacy.accounting.privacy_events import Adjacency, AnyObserver
from fedaudit.spec.privacy import Clip, Radius
from models.leakage_terms import LeakageRadius, LeakageTerms
from models.tables.federations import Federation
from models.values import Budget, BudgetFigure, FederationStatus, Gap, Simulation

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
    simulation: Simulation
    """Whether experiments are admitted whose noise anyone can draw again from the seed."""
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


class SimulationSetting(Body):
    """Whether experiments on a federation may simulate their noise."""

    simulation: Simulation


class FederationParameters(PageParameters):
    """Which page of which federations."""

    status: FederationStatus | None = None


class FederationPage(BaseModel):
    """Some federations."""

    items: list[FederationBody]
    next_cursor: str | None


class UncountedRuns(BaseModel):
    """What was done with the same data and a budget's figures leave out.

    Experiments of the same book that it cannot count; and of a total for release also the
    experiments whose noise was simulated, and the profile.
    """

    mechanism: str
    """The mechanism of the experiments; `profile` for the published profile."""
    runs: int
    why: str


_SCOPE = (
    "what this project spends on this content; another project of the service that has the same "
    "content has budgets of its own, and neither counts what the other spends"
)


class BudgetBody(BaseModel):
    """One budget of a project on a content; `total` is null where nobody has set a bound.

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
    radius: LeakageRadius | None
    """Of leakage, which adds up over runs of the same radius and clip only: `adaptive`, or the
    distance of uploads within which n/nu holds. Null of leakage means that the total was set before
    it was recorded: such a total refuses every run until one is set anew."""
    clip: float | None
    """Of leakage: what updates are clipped to; null where they are not."""
    unit: str | None
    """Of an epsilon: `client` or `record`, whom the figures are about; null of anything else, and
    where nothing is counted."""
    uncounted: list[UncountedRuns]
    scope: str = _SCOPE
    """Whose spending is counted."""
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
        terms = figures.pop("terms")
        radius, clip = (None, None) if terms is None else (terms.radius, terms.clip)
        return cls(**figures, radius=radius, clip=clip, reason=reason)


_OTHER_FIGURE: dict[BudgetFigure, str] = {
    "epsilon": "its cost is counted as leakage, another figure that cannot be added",
    "leakage": "its cost is counted as an epsilon, another figure that cannot be added",
    "log_ratio": "the theorem has no sum for it: that needs laplace-l2 with a fixed radius and a "
    "clip",
}
"""Why a cost is not counted as the budget's figure."""


def _why(budget: Budget, gap: Gap) -> str:
    words: dict[Gap, str] = {
        "unbounded": "without noise nothing bounds what it reveals",
        "other-figure": _OTHER_FIGURE[budget.figure],
        "simulated": "its noise was simulated from its seed, so what it published is protected by "
        "nothing, and it is in the simulation book",
        "profile": "the profile of the data was published, exact and without noise",
        "other-terms": "its leakage is of another radius or clip, and n/nu of different radii "
        "cannot be added",
        "other-adjacency": f"its figures are of another adjacency than {budget.adjacency}",
        "other-observer": f"it guarantees nothing against {observer_words(budget.observer or '')}",
        "other-unit": f"its figures are of another unit than a {budget.unit}, and the two cannot "
        "be composed",
    }
    return words[gap]


class BudgetList(BaseModel):
    """Every budget that was set or spent from."""

    items: list[BudgetBody]


_HAS_PARTS: dict[BudgetFigure, bool] = {"epsilon": True, "leakage": False, "log_ratio": False}
"""Whether a figure means something only with a delta, an adjacency and an observer."""


class BudgetSetting(Body):
    """What may be spent of one figure in one book, in all."""

    book: Literal["simulation", "release"]
    figure: BudgetFigure
    total: Annotated[float, Field(ge=0, le=_MAX_VALUE)] | None
    """Null removes the bound; spending is booked all the same."""
    delta: Annotated[float, Field(gt=0, lt=1)] | None = None
    adjacency: Adjacency | None = None
    observer: AnyObserver | None = None
    radius: Literal["adaptive"] | Radius | None = None
    """Of leakage: which radius the total is for; `adaptive` unless given, as in a spec."""
    clip: Clip | None = None
    """Of leakage: which clip the total is for; none unless given, as in a spec."""

    @model_validator(mode="after")
    def _figure_has_its_parts(self) -> Self:
        for field in ("delta", "adjacency", "observer"):
            given = getattr(self, field) is not None
            if given != _HAS_PARTS[self.figure]:
                message = (
                    f"{self.figure} is metric privacy and has none; leave it out"
                    if given
                    else "an epsilon means something only with it; give it"
                )
                raise _inconsistent(field, message)
        for field in ("radius", "clip"):
            if self.figure != "leakage" and getattr(self, field) is not None:
                message = "only leakage is kept apart by radius and clip; leave it out"
                raise _inconsistent(field, message)
        return self

    def stored_fields(self) -> dict[str, Any]:
        """What the repository of budgets is told."""
        values = self.model_dump()
        radius, clip = values.pop("radius"), values.pop("clip")
        if self.figure == "leakage":
            values["terms"] = LeakageTerms("adaptive" if radius is None else radius, clip)
        return values


def _inconsistent(field: str, message: str) -> PydanticCustomError:
    return PydanticCustomError(
        "inconsistent", "{message}", {"pointer": f"/{field}", "message": message}
    )
