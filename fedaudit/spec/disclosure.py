"""What owners of a federation and of the service allow to be asked about its groups, and departures
from that.

Two reports that differ by one edge, or by one held-out client, disclose single people. So the owner
fixes edges, rules, sizes and the split for every submission. Messages about departures quote only
the policy and the request: neither is data, so every submitter may read them.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from operator import attrgetter
from typing import Annotated, Any, Literal

from pydantic import Field
from pydantic_core import to_jsonable_python

from fedaudit.spec.base import MAX_INTEGER, SpecPart, Text
from fedaudit.spec.errors import FieldError, Refusals, pointer, refuse_at, validated
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.fairness import (
    Combinations,
    CountRounding,
    Edges,
    Fairness,
    Favourable,
    Groups,
    JoinedGroups,
    LeftOutGroups,
    without_label,
)
from fedaudit.spec.models import ArtifactStart
from fedaudit.spec.registration import (
    CHOSEN_PARAMETERS,
    FREE_THRESHOLD,
    Registration,
    is_free_threshold,
    source_departures,
)
from fedaudit.spec.sources import LeaveOneOut, Scoring, Source, ValidationFraction, ValidationUnit
from fedaudit.spec.table import Table

_LATER = Field(exclude_if=lambda value: value is None)


class FixedSplit(SpecPart):
    """Which rows are held out and scored: all that it depends on, so all of it is required."""

    validation_fraction: ValidationFraction
    seed: Annotated[int, Field(ge=0, le=MAX_INTEGER)]
    """The experiment's: whom the split draws follows from it."""
    validation_unit: ValidationUnit = "client"
    scoring: Scoring = LeaveOneOut(method="leave-one-out")
    validation_clients: Annotated[int | None, Field(ge=1, le=1_000_000), _LATER] = None
    """`training.stopping.validation_clients`; null where rounds have to score everybody."""


class DisclosurePolicy(SpecPart):
    """What binds every submission and profile; null leaves a field to the request."""

    minimum_group_size: Annotated[int | None, Field(ge=1, le=1_000_000)] = None
    """A spec's has to be at least this."""
    minimum_group_clients: Annotated[int | None, Field(ge=1, le=1_000_000)] = None
    """A spec's has to be at least this."""
    edges: Edges | None = None
    """Each sensitive attribute named here is cut so, and no other one is cut; scores at tenths."""
    groups: Annotated[JoinedGroups | None, _LATER] = None
    """What is joined of each sensitive attribute named here, and of no other one."""
    exclude: Annotated[LeftOutGroups | None, _LATER] = None
    """What every spec and audit leaves out: all of it, so that no two reports differ by it."""
    favourable: Favourable | None = None
    """The rule of every spec with a sensitive attribute."""
    sensitive: Annotated[list[Text], Field(max_length=20)] | None = None
    """No other attribute may be looked at; fewer may."""
    intersections: Combinations | None = None
    """No other combination may be looked at; fewer may."""
    split: FixedSplit | None = None
    source: Literal["registered"] | None = None
    """Whether columns, target, client key, partition and everything else that decides which rows
    there are must be those of the registration."""

    def faults(self) -> Refusals:
        for name, edges in (self.edges or {}).items():
            if any(low >= high for low, high in pairwise(edges)):
                yield refuse_at(
                    pointer("edges", name), "edges must rise from one to the next; sort them"
                )
        for where, name in self._named():
            if self.sensitive is not None and name not in self.sensitive:
                yield refuse_at(
                    where, f"speaks of {name!r}, not in `sensitive`; name it there or leave it out"
                )
        rules = self.favourable if isinstance(self.favourable, list) else []
        if len({attribute for rule in rules for attribute in rule.group}) > 1:
            yield refuse_at(
                "/favourable",
                "speaks of several attributes, as no spec may; give the rules of one attribute",
            )

    def _named(self) -> list[tuple[str, str]]:
        """Every attribute that is named beside `sensitive`, with its place."""
        rules = self.favourable if isinstance(self.favourable, list) else []
        return [
            *(
                (pointer(field, name), name)
                for field in ("edges", "groups", "exclude")
                for name in getattr(self, field) or {}
            ),
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
    return validated(DisclosurePolicy, value)


def least_group_size(floor: DisclosureFloor, policies: Iterable[object]) -> int:
    """The fewest rows of a group that may be shown: the largest of the service's floor and what
    these stored policies ask for."""
    asked = (parse_disclosure_policy(one).minimum_group_size or 1 for one in policies)
    return max(floor.minimum_group_size, *asked, 1)


_MINIMUMS = {
    "minimum_group_size": "FEDAUDIT_MIN_GROUP_SIZE",
    "minimum_group_clients": "FEDAUDIT_MIN_GROUP_CLIENTS",
}
"""The settings of a service's floor."""
_MEANT: dict[str, Callable[[Any], Any]] = {"missing_values": lambda some: {"", *some}, "join": dict}
"""What two values must agree in to leave the same people out: an empty text is always missing."""
POLICY = "the federation's disclosure policy"
_ELSEWHERE: dict[str, tuple[str, ...]] = {
    "seed": (),
    "validation_clients": ("training", "stopping"),
}
"""Where a spec has the fields of `FixedSplit` that are not of its federation."""


def below(where: str, asked: int, least: int | None, *, who: str) -> Iterator[FieldError]:
    """A fault where a minimum is smaller than the least that is allowed. `who`: who allows it, as
    the end of the sentence."""
    if least is not None and asked < least:
        yield departure(
            where, f"{asked} is below {least}, the least that {who}; set it to {least} or more"
        )


def floor_faults(floor: DisclosureFloor, groups: Groups) -> Iterator[FieldError]:
    """Faults for each minimum of a spec or registration that is below the service's floor."""
    for name, setting in _MINIMUMS.items():
        asked, least = getattr(groups, name), getattr(floor, name)
        who = f"this service allows ({setting})"
        yield from below(pointer("fairness", name), asked, least, who=who)


def hiding_faults(
    fairness: Fairness,
    source: Source | None,
    *demands: DisclosureFloor | DisclosurePolicy | Registration,
) -> Iterator[FieldError]:
    """Where a spec or audit hides larger groups than usual and than service and owner demand, has
    other people in no group than they, looks at one group's gaps alone, or rounds to a coarser base
    than usual: those who are judged would choose which gaps gates see."""
    groups = [one.fairness if isinstance(one, Registration) else one for one in demands]
    for name in _MINIMUMS:
        asked, usual = getattr(fairness, name), Groups.model_fields[name].default
        most = max(usual, *(getattr(one, name) or 1 for one in groups))
        if asked > most:
            why = f"{asked} would hide groups from gates; set it to {most} or less"
            yield departure(pointer("fairness", name), f"{why}, or let {POLICY} demand more")
    if (base := fairness.rounded_to or 1) > (usual := CountRounding().base):
        why = f"{base} would round away gaps from gates; take {usual} or less, or `fairness.noise`"
        yield departure("/fairness/rounding/base", why)
    if fairness.reference_group is not None:
        why = "would hide wider gaps between other groups from gates; leave it out"
        yield departure("/fairness/reference_group", why)
    registered = [one.federation for one in demands if isinstance(one, Registration)]
    for name, meant in _MEANT.items() if isinstance(source, Table) else ():
        known = [Table.model_fields[name].default, *(getattr(one, name, ()) for one in registered)]
        if meant(getattr(source, name)) not in map(meant, known):
            why = "would hide people from gates; take what the data are registered with"
            yield departure(pointer("federation", name), why)


def spec_faults(
    policy: DisclosurePolicy, spec: ExperimentSpec, *, registration: Registration | None
) -> list[FieldError]:
    """Every field in which a spec departs from a federation's policy. `registration`: that of the
    federation, None where it is not registered."""
    faults = [*_of_groups(policy, spec.fairness)]
    for name in () if policy.split is None else FixedSplit.model_fields:
        where = (*_ELSEWHERE.get(name, ("federation",)), name)
        faults += _differing(
            pointer(*where), attrgetter(".".join(where))(spec), getattr(policy.split, name)
        )
    if policy.intersections is not None:
        allowed = {frozenset(parts) for parts in policy.intersections}
        faults += [
            departure(
                pointer("fairness", "intersections", place),
                f"is no combination that {POLICY} lets anyone look at "
                f"({_json(policy.intersections)}); leave it out",
            )
            for place, parts in enumerate(spec.fairness.intersections)
            if frozenset(parts) not in allowed
        ]
    faults += _of_source(policy, spec.federation, registration)
    if policy.source is not None and isinstance(spec.model.start, ArtifactStart):
        message = (
            f"{CHOSEN_PARAMETERS}, and {POLICY} admits no such questions; start from `zeros`, "
            "`uniform` or `normal`"
        )
        faults.append(departure("/model/start", message))
    if policy.edges is not None and is_free_threshold(spec.decision.threshold):
        faults.append(departure("/decision/threshold", f"{FREE_THRESHOLD}; {POLICY} fixes edges"))
    return faults


def registration_faults(
    policy: DisclosurePolicy, asked: Registration, *, registration: Registration | None
) -> list[FieldError]:
    """Every field in which a registration departs from the policy of its content. A profile holds
    nothing out and combines nothing, so the split and intersections do not matter. `registration`:
    the one that it would replace, None where there is none."""
    faults = list(_of_groups(policy, asked.fairness))
    if registration is not None:
        faults += _of_source(policy, asked.federation, registration)
    return faults


def _of_groups(policy: DisclosurePolicy, groups: Groups) -> Iterator[FieldError]:
    for name in _MINIMUMS:
        asked, least = getattr(groups, name), getattr(policy, name)
        yield from below(pointer("fairness", name), asked, least, who=f"{POLICY} allows")
    for place, name in enumerate(groups.sensitive):
        if policy.sensitive is not None and name not in policy.sensitive:
            allowed = ", ".join(policy.sensitive) or "none"
            yield departure(
                pointer("fairness", "sensitive", place),
                f"{name!r} is no attribute that {POLICY} lets anyone look at ({allowed}); leave "
                "it out",
            )
    for field in ("edges", "groups"):
        for name in groups.sensitive if getattr(policy, field) is not None else ():
            asked, wanted = (getattr(one, field).get(name) for one in (groups, policy))
            yield from _differing(pointer("fairness", field, name), asked, wanted)
    if policy.exclude is not None:
        yield from _differing("/fairness/exclude", groups.exclude, policy.exclude)
    if groups.sensitive and policy.favourable is not None:
        asked, wanted = (without_label(one.favourable) for one in (groups, policy))
        yield from _differing("/fairness/favourable", asked, wanted)


def _differing(where: str, asked: Any, wanted: Any) -> Iterator[FieldError]:
    """A fault where something else is asked for than the one value that a policy allows."""
    if asked != wanted:
        remedy = "leave it out" if wanted is None else f"set it to {_json(wanted)}"
        yield departure(where, f"differs from what {POLICY} demands; {remedy}")


def _of_source(
    policy: DisclosurePolicy, asked: Any, registration: Registration | None
) -> Iterator[FieldError]:
    if policy.source is None:
        return
    if registration is None:
        yield departure(
            "/federation",
            f"{POLICY} admits the data as they were registered only, and they are not registered; "
            "register the file first",
        )
        return
    for where, what in source_departures(asked, registration.federation):
        yield departure(where, f"{what}, and {POLICY} demands that; take what the registration has")


def departure(where: str, message: str) -> FieldError:
    """A fault that follows from what was sent."""
    return FieldError(where, message, of_spec=True)


def _json(value: Any) -> str:
    return json.dumps(to_jsonable_python(value), ensure_ascii=False)
