"""What the owners of a federation and of the service let anyone ask of groups, and who is refused.

A policy belongs to the content, as budgets do: it stays when the file is deleted, uploaded or
registered again.
"""

from collections.abc import Mapping
from typing import Any

from sqlalchemy.orm import Session

from api.http.conditional import Preconditions
from api.schemas.federations import DisclosureBody
from api.services.base.lookups import find_federation
from api.shared.resources import Resources
from api.shared.security import Caller
from fedaudit.spec.disclosure import (
    DisclosureFloor,
    DisclosurePolicy,
    floor_faults,
    parse_disclosure_policy,
    registration_faults,
    spec_faults,
)
from fedaudit.spec.errors import FieldError, InvalidInputError
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.fairness import Groups
from fedaudit.spec.registration import Registration, parse_registration
from infrastructure.settings import Settings
from models.repositories import Budgets, FederationRepository, SettingChangeRepository
from models.tables.federations import Federation
from models.values import BudgetsAcross


def floor_of(settings: Settings) -> DisclosureFloor:
    """What nothing on this service may go below."""
    return DisclosureFloor(
        minimum_group_size=settings.min_group_size, minimum_group_clients=settings.min_group_clients
    )


def get_disclosure(resources: Resources, caller: Caller, federation_id: str) -> DisclosureBody:
    """The policy of a federation. Raises ProblemError where the project has no such one."""
    with resources.database.read() as session:
        return _body(resources, find_federation(session, caller, federation_id))


def set_disclosure(
    resources: Resources,
    caller: Caller,
    federation_id: str,
    value: Any,
    *,
    stated: Preconditions | None = None,
) -> DisclosureBody:
    """Set the whole policy, for what is submitted or registered from then on.

    Raises InvalidInputError for one that contradicts itself or lies below the service's floor,
    ProblemError where the project has no such federation, or its policy is not as `stated`.
    """
    policy = parse_disclosure_policy(value)
    _refuse_policy_below_floor(floor_of(resources.settings), policy)
    with resources.database.write() as session:
        found = find_federation(session, caller, federation_id)
        federations = FederationRepository(session, caller.project_id)
        if stated is not None and stated.given:
            present = federations.lock(found.id)
            stated.demand(None if present is None else _body(resources, present))
        changed = federations.set_disclosure(found.id, stored_policy(policy))
        SettingChangeRepository(session, caller.project_id).add(
            "federation",
            found.id,
            "disclosure",
            value=stored_policy(policy),
            changed_by=caller.actor,
        )
        return _body(resources, changed)


def policy_of(row: Federation) -> DisclosurePolicy:
    """The policy of a federation's content; an empty one where none was set."""
    return DisclosurePolicy() if row.disclosure is None else parse_disclosure_policy(row.disclosure)


def stored_policy(policy: DisclosurePolicy) -> Mapping[str, Any] | None:
    """A policy as it is stored: the fields that bind; None where none does."""
    return None if policy.is_empty else policy.model_dump(mode="json", exclude_none=True)


def refuse_below_floor(settings: Settings, groups: Groups) -> None:
    """Raises InvalidInputError where groups would be shown that the service never shows."""
    _refuse(floor_faults(floor_of(settings), groups))


def refuse_departures(
    session: Session,
    project_id: str,
    federation_id: str,
    spec: ExperimentSpec,
    *,
    across: BudgetsAcross,
) -> DisclosurePolicy:
    """The policy of the content's owner for a spec; in the caller's write transaction.

    Where another project owns the content, the project's own binds as well. Raises
    InvalidInputError where the spec departs from either.
    """
    budgets = Budgets(session, project_id, across=across)
    found = budgets.hold(federation_id)
    if found is None:
        raise LookupError(f"federation {federation_id}: this project has no such federation")
    federations = FederationRepository(session, project_id, across=across)
    is_owner = budgets.is_owner(federation_id)
    owners = None if is_owner else federations.of_owner(found.fingerprint)
    for row in (found, owners):
        if row is not None and row.disclosure is not None:
            _refuse(spec_faults(policy_of(row), spec, registration=_registration_of(row)))
    # A report says what the owner had set, not what a guest set for itself.
    return policy_of(found if owners is None else owners)


def refuse_registration(
    before: Federation | None, owners: Federation | None, registration: Mapping[str, Any]
) -> None:
    """Raises InvalidInputError where a registration departs from the policy of its content.

    `before`: the project's own federation with this content; `owners`: that of another project
    which owns it.
    """
    asked = parse_registration(registration)
    for row in (before, owners):
        if row is not None:
            _refuse(registration_faults(policy_of(row), asked, registration=_registration_of(row)))


def _registration_of(row: Federation) -> Registration | None:
    return None if row.registration is None else parse_registration(row.registration)


def _refuse_policy_below_floor(floor: DisclosureFloor, policy: DisclosurePolicy) -> None:
    faults = []
    for name, least in vars(floor).items():
        asked = getattr(policy, name)
        if asked is not None and asked < least:
            message = f"is below {least}, the least that this service allows anyway; raise it"
            faults.append(FieldError(f"/{name}", message))
    _refuse(faults)


def _refuse(faults: list[FieldError]) -> None:
    if faults:
        raise InvalidInputError(faults)


def _body(resources: Resources, row: Federation) -> DisclosureBody:
    return DisclosureBody.of(
        policy_of(row), floor=floor_of(resources.settings), set_at=row.disclosure_set_at
    )
