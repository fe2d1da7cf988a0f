"""What the owner of a federation, and of the service, let anyone ask of its groups.

Two reports that differ by one edge, or by one held-out client, give single people away. Edges,
rules, sizes and the split are therefore the owner's to fix, for whoever submits.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Literal, Self

from pydantic import Field, ValidationError, model_validator

from fedaudit.spec.base import MAX_INTEGER, SpecPart, Text
from fedaudit.spec.errors import InvalidInputError, field_errors, pointer, refuse_at
from fedaudit.spec.fairness import Favourable
from fedaudit.spec.sources import LeaveOneOut, Scoring, ValidationFraction, ValidationUnit

_Attributes = Annotated[list[Text], Field(max_length=20)]


class FixedSplit(SpecPart):
    """Which rows are held out and scored: all that it depends on, so all of it is required."""

    validation_fraction: ValidationFraction
    seed: Annotated[int, Field(ge=0, le=MAX_INTEGER)]
    """The experiment's: whom the split draws follows from it."""
    validation_unit: ValidationUnit = "client"
    scoring: Scoring = LeaveOneOut(method="leave-one-out")


class DisclosurePolicy(SpecPart):
    """What binds every submission and profile; null leaves a field to whoever asks."""

    minimum_group_size: Annotated[int | None, Field(ge=1, le=1_000_000)] = None
    """A spec's has to be at least this."""
    minimum_group_clients: Annotated[int | None, Field(ge=1, le=1_000_000)] = None
    """A spec's has to be at least this."""
    edges: dict[Text, Annotated[list[float], Field(min_length=1, max_length=100)]] | None = None
    """Each sensitive attribute named here is cut so, and no other one is cut."""
    favourable: Favourable | None = None
    """The rule of every spec with a sensitive attribute."""
    sensitive: _Attributes | None = None
    """No other attribute may be looked at; fewer may."""
    intersections: (
        Annotated[
            list[Annotated[list[Text], Field(min_length=2, max_length=4)]], Field(max_length=10)
        ]
        | None
    ) = None
    """No other combination may be looked at; fewer may."""
    split: FixedSplit | None = None
    source: Literal["registered"] | None = None
    """Whether columns, target, client key, partition and whatever else decides which rows there are
    have to be those of the registration."""

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        for name, edges in (self.edges or {}).items():
            if any(low >= high for low, high in pairwise(edges)):
                raise refuse_at(
                    pointer("edges", name), "edges must rise from one to the next; sort them"
                )
        for where, name in self._named():
            if self.sensitive is not None and name not in self.sensitive:
                raise refuse_at(
                    where, f"speaks of {name!r}, not in `sensitive`; name it there or leave it out"
                )
        return self

    @model_validator(mode="after")
    def _rules_speak_of_one_attribute(self) -> Self:
        rules = self.favourable if isinstance(self.favourable, list) else []
        if len({attribute for rule in rules for attribute in rule.group}) > 1:
            raise refuse_at(
                "/favourable",
                "speaks of several attributes, as no spec may; give the rules of one attribute",
            )
        return self

    @property
    def is_empty(self) -> bool:
        """Whether it leaves everything to whoever asks."""
        return self == DisclosurePolicy()

    def _named(self) -> list[tuple[str, str]]:
        """Every attribute that is named beside `sensitive`, with its place."""
        rules = self.favourable if isinstance(self.favourable, list) else []
        return [
            *((pointer("edges", name), name) for name in self.edges or {}),
            *(("/favourable", name) for rule in rules for name in rule.group),
            *(
                (pointer("intersections", place), name)
                for place, parts in enumerate(self.intersections or [])
                for name in parts
            ),
        ]


@dataclass(frozen=True)
class DisclosureFloor:
    """What no submission or profile of a service may go below, whatever a federation's policy."""

    minimum_group_size: int = 1
    minimum_group_clients: int = 1


def parse_disclosure_policy(value: object) -> DisclosurePolicy:
    """The policy in a decoded JSON value. Raises InvalidInputError naming the fields."""
    try:
        return DisclosurePolicy.model_validate(value)
    except ValidationError as error:
        raise InvalidInputError(field_errors(error, value)) from None


def least_group_size(floor: DisclosureFloor, policies: Iterable[object]) -> int:
    """The fewest rows of a group that may be shown: the service's floor, or what one of these
    policies, as they are stored, asks for where that is more."""
    asked = (parse_disclosure_policy(one).minimum_group_size or 1 for one in policies)
    return max(floor.minimum_group_size, *asked, 1)
