"""Where a spec or a registration asks for more than a disclosure policy, or a floor, lets it.

The messages name what is demanded, and how to get there. They quote the policy and the request
alone: neither is data, so whoever may submit may read them.
"""

import json
from collections.abc import Iterator
from typing import Any

from pydantic import TypeAdapter

from fedaudit.spec.disclosure.disclosure_policy import DisclosureFloor, DisclosurePolicy, FixedSplit
from fedaudit.spec.errors import FieldError, pointer
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.fairness import Favourable, Groups, without_label
from fedaudit.spec.model.starts import ArtifactStart
from fedaudit.spec.registered_use import CHOSEN_PARAMETERS, source_departures
from fedaudit.spec.registration import Registration

_SIZE, _CLIENTS = "minimum_group_size", "minimum_group_clients"
_POLICY = "the federation's disclosure policy"
_FAVOURABLE: TypeAdapter[Any] = TypeAdapter(Favourable)


def floor_faults(floor: DisclosureFloor, groups: Groups) -> list[FieldError]:
    """By which minimum a spec or a registration lies below the floor of the service."""
    return [
        _fault(
            pointer("fairness", name),
            f"{getattr(groups, name)} is below {least}, the least that this service allows "
            f"({setting}); set it to {least} or more",
        )
        for name, setting in (
            (_SIZE, "FEDAUDIT_MIN_GROUP_SIZE"),
            (_CLIENTS, "FEDAUDIT_MIN_GROUP_CLIENTS"),
        )
        if getattr(groups, name) < (least := getattr(floor, name))
    ]


def spec_faults(
    policy: DisclosurePolicy, spec: ExperimentSpec, *, registration: Registration | None
) -> list[FieldError]:
    """Every field by which a spec departs from a federation's policy.

    `registration`: the federation's own, None where nobody registered it.
    """
    return [
        *_of_groups(policy, spec.fairness),
        *_of_intersections(policy, spec),
        *_of_split(policy.split, spec),
        *_of_source(policy, spec.federation, registration),
        *_of_start(policy, spec),
    ]


def registration_faults(
    policy: DisclosurePolicy, asked: Registration, *, registration: Registration | None
) -> list[FieldError]:
    """Every field by which a registration departs from the policy of its content.

    A profile holds nothing out and combines nothing, so the split and intersections do not matter.
    `registration`: that which it would replace, None where there is none.
    """
    faults = list(_of_groups(policy, asked.fairness))
    if registration is not None:
        faults += _of_source(policy, asked.federation, registration)
    return faults


def _of_groups(policy: DisclosurePolicy, groups: Groups) -> Iterator[FieldError]:
    for name in (_SIZE, _CLIENTS):
        least, asked = getattr(policy, name), getattr(groups, name)
        if least is not None and asked < least:
            yield _fault(
                pointer("fairness", name),
                f"{asked} is below {least}, the least that {_POLICY} allows; set it to {least} or "
                "more",
            )
    for place, name in enumerate(groups.sensitive):
        if policy.sensitive is not None and name not in policy.sensitive:
            allowed = ", ".join(policy.sensitive) or "none"
            yield _fault(
                pointer("fairness", "sensitive", place),
                f"{name!r} is no attribute that {_POLICY} lets anyone look at ({allowed}); leave "
                "it out",
            )
    yield from _of_edges(policy, groups)
    rule = without_label(policy.favourable)
    if groups.sensitive and rule not in (None, without_label(groups.favourable)):
        demanded = _json(_FAVOURABLE.dump_python(rule, mode="json"))
        yield _fault(
            "/fairness/favourable", f"differs from the rule of {_POLICY}; set it to {demanded}"
        )


def _of_edges(policy: DisclosurePolicy, groups: Groups) -> Iterator[FieldError]:
    if policy.edges is None:
        return
    for name in groups.sensitive:
        asked, demanded = groups.edges.get(name), policy.edges.get(name)
        if asked == demanded:
            continue
        where = pointer("fairness", "edges", name)
        if demanded is None:
            yield _fault(where, f"{_POLICY} lets nobody cut {name!r}; leave its edges out")
        else:
            yield _fault(where, f"differs from the edges of {_POLICY}; set it to {_json(demanded)}")


def _of_intersections(policy: DisclosurePolicy, spec: ExperimentSpec) -> Iterator[FieldError]:
    if policy.intersections is None:
        return
    allowed = {frozenset(parts) for parts in policy.intersections}
    for place, parts in enumerate(spec.fairness.intersections):
        if frozenset(parts) not in allowed:
            yield _fault(
                pointer("fairness", "intersections", place),
                f"is no combination that {_POLICY} lets anyone look at "
                f"({_json(policy.intersections)}); leave it out",
            )


def _of_split(split: FixedSplit | None, spec: ExperimentSpec) -> Iterator[FieldError]:
    if split is None:
        return
    source = spec.federation
    for where, asked, demanded in (
        ("/seed", spec.seed, split.seed),
        ("/federation/validation_fraction", source.validation_fraction, split.validation_fraction),
        ("/federation/validation_unit", source.validation_unit, split.validation_unit),
        ("/federation/scoring", source.scoring, split.scoring),
    ):
        if asked != demanded:
            value = split.model_dump(mode="json")[where.rpartition("/")[2]]
            yield _fault(
                where,
                f"differs from the split of {_POLICY}, which decides who is held out and scored; "
                f"set it to {_json(value)}",
            )


def _of_source(
    policy: DisclosurePolicy, asked: Any, registration: Registration | None
) -> Iterator[FieldError]:
    if policy.source is None:
        return
    if registration is None:
        yield _fault(
            "/federation",
            f"{_POLICY} admits the data as they were registered only, and nobody has registered "
            "them; register the file first",
        )
        return
    for where, what in source_departures(asked, registration.federation):
        yield _fault(where, f"{what}, and {_POLICY} demands that; take what the registration has")


def _of_start(policy: DisclosurePolicy, spec: ExperimentSpec) -> Iterator[FieldError]:
    if policy.source is not None and isinstance(spec.model.start, ArtifactStart):
        yield _fault(
            "/model/start",
            f"{CHOSEN_PARAMETERS}, and {_POLICY} admits no such questions; start from `zeros`, "
            "`uniform` or `normal`",
        )


def _fault(where: str, message: str) -> FieldError:
    return FieldError(where, message, of_spec=True)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
