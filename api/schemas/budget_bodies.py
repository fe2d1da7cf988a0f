"""The budgets on a federation's data."""

import json
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, Field, model_validator
from pydantic_core import PydanticCustomError

from api.schemas.base import Body
from fedaudit.privacy.accounting.privacy_events import Adjacency, AnyObserver, observer_words
from fedaudit.privacy.unit_key import PATTERN
from fedaudit.spec.privacy import Clip, Radius
from models.leakage_terms import LeakageRadius, LeakageTerms
from models.values import Budget, BudgetFigure, BudgetsAcross, Gap

_MAX_VALUE = 1e300


class UncountedRuns(BaseModel):
    """What was done with the same data and a budget's figures leave out.

    Experiments of the same book that it cannot count; and of a total for release also the
    experiments whose noise was simulated. A budget with a total has the profiles.
    """

    mechanism: str
    """The mechanism of the experiments, or of trainings elsewhere (`laplace-l2, declared`);
    `profile` for published profiles."""
    runs: int
    """How many experiments, ledgers or profiles."""
    why: str


_SCOPES: dict[BudgetsAcross, str] = {
    "service": "what every project of this service spends on this content, whichever registered "
    "it; the totals of the project that owns it hold for all, and another project's for itself "
    "alone",
    "project": "what this project spends on this content; another project of the service that has "
    "the same content has budgets of its own, and neither counts what the other spends",
}


class OthersSpending(BaseModel):
    """What other projects have of a budget's figures, without their names and experiments."""

    reserved: float
    spent: float


class BudgetBody(BaseModel):
    """One budget on a content; `total` is null where nobody has set a bound.

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
    declared: float
    """Of `spent`, what is as declared by the trainer: by ledgers of trainings elsewhere, which
    nobody here saw. Of an epsilon, theirs by themselves."""
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
    unit_key: str | None
    """Whose clients are counted: `client_key=COLUMN`, or `partition=HASH` for those that a seed
    dealt rows to; `row` for records. Figures about clients of another key cannot be composed with
    it. Null where nothing is counted, and of what was spent before it was recorded."""
    total_names_clients: bool
    """Whether the total is for these clients only; else it is for those that came first, and other
    clients are refused."""
    across: BudgetsAcross
    """Whether every project's spending on this content is counted, or this one's alone."""
    scope: str
    """The same in words."""
    own_total: float | None
    """What this project has set: `total` is the smaller of it and the owner's."""
    is_owner: bool
    """Whether this project may raise the total: no other project owns the content."""
    others: OthersSpending
    """Of `reserved` and `spent`, what is other projects'; of an epsilon, theirs by themselves."""
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
        known = vars(budget)
        same = {name: known[name] for name in cls.model_fields if name in known}
        terms = budget.terms
        radius, clip = (None, None) if terms is None else (terms.radius, terms.clip)
        return cls(
            **{
                **same,
                "remaining": budget.remaining,
                "uncounted": uncounted,
                "radius": radius,
                "clip": clip,
                "reason": reason,
                "total_names_clients": bool(budget.for_clients) and budget.total is not None,
                "scope": _SCOPES[budget.across],
                "others": OthersSpending(
                    reserved=budget.others_reserved, spent=budget.others_spent
                ),
            }
        )


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
        "profile": "profiles of the data were published, exact and without noise",
        "other-terms": "its leakage is of another radius or clip, and n/nu of different radii "
        "cannot be added",
        "other-adjacency": f"its figures are of another adjacency than {budget.adjacency}",
        "other-observer": f"it guarantees nothing against {observer_words(budget.observer or '')}",
        "other-clients": "its figures are about clients that are told apart by another key, and "
        "one person's rows may lie with several of these",
        "other-unit": f"its figures are of another unit than a {budget.unit}, and the two cannot "
        "be composed",
    }
    return words[gap]


_SETTING = ("book", "figure", "delta", "adjacency", "observer", "radius", "clip")
_SET = ("total", "own_total", "is_owner", "across")


class BudgetList(BaseModel):
    """Every budget that was set or spent from."""

    items: list[BudgetBody]

    def settings(self) -> bytes:
        """The totals alone, and what they are for: what runs do not change by spending."""
        totals = [
            {name: getattr(one, name) for name in (*_SETTING, *_SET)}
            | {"for_clients": one.unit_key if one.total_names_clients else None}
            for one in self.items
            if one.total is not None or one.own_total is not None
        ]
        return json.dumps(sorted(json.dumps(one, sort_keys=True) for one in totals)).encode()


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

    unit_key: Annotated[str, Field(pattern=PATTERN)] | None = None
    """Whose clients the total is for, worded as GET gives it; null for those that came first."""

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
