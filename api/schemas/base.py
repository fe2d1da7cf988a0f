"""What bodies and parameters share."""

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, Generic, Literal, Self, TypeVar

from fastapi import Header, Request
from fastapi.exceptions import RequestValidationError
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    create_model,
    model_validator,
)

from fedaudit.privacy.accounting.privacy_events import Adjacency
from fedaudit.privacy.mechanisms.registry import MECHANISMS
from fedaudit.spec.base import Described, Text
from fedaudit.spec.errors import listed, refuse_at
from models.repositories.reports import EPSILON
from models.values import is_id

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}(?!T.* )")


_Shown = TypeVar("_Shown", bound=BaseModel)


def of_row(body: type[_Shown], row: object, **made: Any) -> _Shown:
    """The body of a stored row, or of what was computed: fields of the same name are its own, and
    so are those of its parts; others are made."""
    stored = (name for name in body.model_fields if name not in made)
    fields = {name: getattr(row, name) for name in stored} | made
    return body.model_validate(fields, from_attributes=True)


Item = TypeVar("Item")


class Page(BaseModel, Generic[Item]):
    """Some items of a list."""

    items: list[Item]
    next_cursor: str | None


class Body(Described):
    """A body that is sent to the service: unknown fields and silent conversions are refused."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class Parameters(BaseModel):
    """Query parameters; unknown ones are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @classmethod
    async def of_query(cls, request: Request) -> Self:
        """Those of a request. FastAPI would examine the type of every field at each request, so
        routes with many depend on this, and declare them by `api.openapi.query_parameters`. Raises
        RequestValidationError."""
        try:
            return cls.model_validate(dict(request.query_params))
        except ValidationError as error:
            faults = error.errors(include_url=False)
            placed = [{**one, "loc": ("query", *one["loc"])} for one in faults]
            raise RequestValidationError(placed) from None


class PageParameters(Parameters):
    """Which page of a list."""

    limit: Annotated[int, Field(ge=1, le=1000, description="Items on the page.")] = 100
    cursor: Annotated[
        str | None, Field(max_length=4000, description="`next_cursor` of the page before.")
    ] = None


def _utc(value: datetime) -> datetime:
    if value.tzinfo is None:
        return value.replace(tzinfo=UTC)
    try:
        return value.astimezone(UTC)
    except OverflowError:
        raise ValueError("is outside the years 1 to 9999") from None


def _written_out(value: object) -> object:
    """Pydantic would take a bare number for the seconds since 1970."""
    if isinstance(value, str) and not _DATE.match(value):
        raise ValueError("is no date and time; write 2026-01-31T12:00:00Z, and %2B for +")
    return value


UtcTime = Annotated[datetime, BeforeValidator(_written_out), AfterValidator(_utc)]
"""A time; without a zone it is taken as UTC."""

IdempotencyHeader = Annotated[
    str | None,
    Header(
        min_length=1,
        max_length=255,
        pattern="^[ -~]*$",
        description="A request that is repeated with the same key and body starts nothing new.",
    ),
]

Reasons = dict[str, str]
"""Why a field beside it is null, by the field's name."""


class FigureFilters(PageParameters):
    """What experiments and their reports are found by, bounds on figures, and what a list is sorted
    by."""

    FIGURES: ClassVar[Sequence[str]]
    SORT_KEYS: ClassVar[Sequence[str]]

    name: Text | None = None
    tag: Text | None = None
    federation_id: Text | None = None
    mechanism: Text | None = None
    created_after: UtcTime | None = None
    created_before: UtcTime | None = None
    delta: Annotated[
        float | None,
        Field(
            gt=0, lt=1, description="Only epsilons at this delta; needed to bound or sort by one."
        ),
    ] = None
    adjacency: Annotated[
        Adjacency | None, Field(description="Only epsilons that are counted under it.")
    ] = None
    sort: str = "-created_at"

    @model_validator(mode="after")
    def _can_be_found(self) -> Self:
        names = [one.facts.name for one in MECHANISMS]
        if self.mechanism not in (None, *names):
            raise refuse_at("/query/mechanism", f"must be one of {listed(names)}")
        if self.federation_id is not None and not is_id(self.federation_id):
            raise refuse_at("/query/federation_id", "is no id; GET /v1/federations has them")
        if self.sort_key not in self.SORT_KEYS:
            keys = ", ".join(self.SORT_KEYS)
            raise refuse_at("/query/sort", f"is unknown; use one of {keys}, or one with a minus")
        if self.delta is None and EPSILON in {self.sort_key, *(one for one, _, _ in self.bounds)}:
            raise refuse_at(
                "/query/delta", "an epsilon means something only with its delta; give `delta` too"
            )
        return self

    @property
    def sort_key(self) -> str:
        """What the list is sorted by, whichever way."""
        return self.sort.removeprefix("-")

    def of(self, names: Iterable[str]) -> dict[str, Any]:
        """The filters of these names that are set."""
        found = {name: getattr(self, name) for name in names}
        return {name: value for name, value in found.items() if value is not None}

    @property
    def bounds(self) -> list[tuple[str, Literal["lte", "gte"], float]]:
        """The bounds that are set: figure, side and value."""
        sides: tuple[Literal["lte", "gte"], ...] = ("lte", "gte")
        return [
            (figure, side, value)
            for figure in self.FIGURES
            for side in sides
            if (value := getattr(self, f"{figure}_{side}", None)) is not None
        ]


_Filters = TypeVar("_Filters", bound=FigureFilters)


def with_bounds(filters: type[_Filters]) -> type[_Filters]:
    """The parameters with a lower and an upper bound for each figure, such as `accuracy[gte]`, and
    the values of `sort`."""
    fields: dict[str, Any] = {
        f"{figure}_{side}": (float | None, Field(None, alias=f"{figure}[{side}]"))
        for figure in filters.FIGURES
        for side in ("lte", "gte")
    }
    sorts = sorted(sign + key for key in filters.SORT_KEYS for sign in ("", "-"))
    fields["sort"] = (str, Field("-created_at", json_schema_extra={"enum": [*sorts]}))
    return create_model(filters.__name__, __base__=filters, __doc__=filters.__doc__, **fields)
