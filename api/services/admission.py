"""Admission: whether a spec can be run, and whether the budgets of its data allow it."""

from functools import partial
from typing import TYPE_CHECKING, Any

from sqlalchemy.orm import Session

from api.services.disclosure import (
    refuse_below_floor,
    refuse_departures,
    refuse_hiding,
    refuse_what_is_not_secret,
)
from api.services.lookups import refuse_gone
from api.shared.data_faults import faults_for, reads_data
from api.shared.federation_data import ready_federation, refuse_erased, usable
from api.shared.security import Call
from fedaudit.attacks.feasibility import check_attacks
from fedaudit.federations.profiles.profile import beside_earlier, cuts_of
from fedaudit.runs.experiment_plan import ExperimentPlan, PlanLimits, plan_experiment
from fedaudit.spec.errors import InvalidInputError, error_at
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.models import ArtifactStart
from fedaudit.spec.parse import parse_spec
from fedaudit.spec.registration import (
    departures,
    federation_id_of,
    parse_registration,
    waits_for_registration,
    with_registration,
)
from fedaudit.spec.sources import FileSource
from fedaudit.training.base.cell import Cell
from infrastructure.storage import stored_artifact
from models.repositories import (
    ArtifactRepository,
    Budgets,
    DisclosureRepository,
    FederationRepository,
)
from models.tables.federations import Federation
from models.values import is_id

if TYPE_CHECKING:
    from fedaudit.federations.federation import Federation as LoadedFederation


def parse_inherited(call: Call, value: Any) -> ExperimentSpec:
    """The spec in a decoded value, completed by the registration of the federation that it names
    by `id`. Raises InvalidInputError naming the fields."""
    federation_id, row = federation_id_of(value), None
    if federation_id is not None and is_id(federation_id):
        with call.reading() as session:
            row = FederationRepository(session, call.project_id).get(federation_id)
    if row is None or row.registration is None:
        if waits_for_registration(value):
            usable(row)
        return parse_spec(value)
    return parse_spec(with_registration(value, row.registration))


def load_for(call: Call, spec: ExperimentSpec, *, new: bool = False) -> "LoadedFederation":
    """The spec's data, if the caller may use them so. Whether a spec fits a file discloses
    something of its cells, even in one bit. Without the scope `federations:read` a file must be
    registered, and the spec use the registered columns, groups and rules alone; and what the
    owner refuses of a `new` experiment is refused before the data are read. Raises
    InvalidInputError, ProblemError."""
    source = spec.federation
    if not reads_data(call.caller) and isinstance(source, FileSource):
        row = _bound(call, spec, source)
        if new:
            with call.writing() as session:
                refuse_what_is_not_secret(call.budgets(session), row.id, spec)
                refuse_departures(call.budgets(session), row.id, spec)
        # By its id, so that only the content is read that was registered.
        known = source.model_copy(update={"path": None, "id": row.id})
        spec = spec.model_copy(update={"federation": known})
    may_read = call.resources.may_read(call.project_id)
    return call.resources.federations.load(spec, project_id=call.project_id, may_read=may_read)


def _bound(call: Call, spec: ExperimentSpec, source: FileSource) -> Federation:
    with call.reading() as session:
        row: Federation | None
        if source.id is not None:
            row = ready_federation(session, call.project_id, source.id)
        else:
            federations = FederationRepository(session, call.project_id)
            row = federations.registered_at(source.path or "")
    if row is None or row.registration is None:
        where = "/federation/path" if source.id is None else "/federation/id"
        raise not_registered(where, "submit the spec")
    # The groups of the spec's attributes that are large enough for the profile to show them.
    attributes = (row.profile or {}).get("attributes", {})
    groups = {
        group
        for name in spec.fairness.sensitive
        for group, rows in attributes.get(name, {}).get("groups", {}).items()
        if rows is not None
    }
    if faults := departures(spec, parse_registration(row.registration), known_groups=groups):
        raise InvalidInputError(faults)
    return row


def not_registered(pointer: str, to_do: str) -> InvalidInputError:
    """The refusal of an unregistered file to a caller who may not read data."""
    message = (
        "is not registered in this project, and this API key lacks the scope federations:read: ask "
        f"someone whose key has it to {to_do}, or to register the file and give you its `id`"
    )
    return error_at(pointer, message, of_spec=True)


def plan(call: Call, spec: ExperimentSpec) -> ExperimentPlan:
    """Load the data and project the cost; no transaction. Nothing below the service's floor of
    disclosure is loaded. Raises InvalidInputError, which quotes data only to callers who may read
    them, and ProblemError as `load_for`."""
    settings = call.resources.settings
    refuse_below_floor(settings, spec.fairness)
    limits = PlanLimits(
        model_bytes=settings.max_model_bytes,
        planned_records=settings.max_planned_records,
        data_bytes=settings.max_data_memory_bytes,
    )
    with faults_for(call.caller, spec):
        federation = load_for(call, spec, new=True)
        _refuse_joined_data(call, federation.joined_table)
        planned = plan_experiment(
            spec,
            federation,
            limits=limits,
            open_artifact=partial(stored_artifact, call.resources.storage, call.project_id),
        )
        check_attacks(Cell(planned.spec, federation))
    if spec.gates or spec.privacy.noise == "release":
        refuse_hiding(call, federation.fingerprint, spec.fairness, spec.federation)
    return planned


def _refuse_joined_data(call: Call, table: str | None) -> None:
    """Raises InvalidInputError where the public table that rows are joined with is a federation's
    data, for no budget of which the run would be charged."""
    if table is not None:
        with call.reading() as session:
            if FederationRepository(session, call.project_id).is_known(table):
                message = "is the data of a federation; name a public table of coordinates"
                raise error_at("/federation/zip_table", message)


def hold_start(session: Session, project_id: str, spec: ExperimentSpec) -> None:
    """Keep the parameters that a spec starts from until it is queued, which keeps them afterwards.
    Raises ProblemError where they expired, or were erased, since the spec was checked."""
    start = spec.model.start
    if isinstance(start, ArtifactStart):
        ArtifactRepository(session, project_id).hold(start.artifact)
        refuse_gone(session, project_id, "artifact", start.artifact)


def store_federation(budgets: Budgets, planned: ExperimentPlan) -> str:
    """The id of the plan's federation, which is stored if it is new, and whose content is locked.
    So it is neither deleted nor erased before the experiment is queued. Raises InvalidInputError
    where the spec names one by an id that cannot be used."""
    source = planned.spec.federation
    uploaded = getattr(source, "id", None)
    if uploaded is not None:
        return usable(budgets.hold(id=uploaded) if is_id(uploaded) else None).id
    fingerprint = planned.federation.fingerprint
    known = budgets.hold(fingerprint=fingerprint)
    if known is None:
        created = FederationRepository(budgets.session, budgets.project_id).get_or_create(
            fingerprint=fingerprint,
            name=getattr(source, "path", source.source),
            source=source.source,
            profile=_first_profile(budgets.session, planned),
            made_up=source.traits.made_up,
        )
        return created.id
    refuse_erased(known)
    return known.id


def _first_profile(session: Session, planned: ExperimentPlan) -> dict[str, Any]:
    """The profile of data that are new to this project, and may be known to another."""
    spec, fingerprint = planned.spec, planned.federation.fingerprint
    if not isinstance(spec.federation, FileSource):
        return planned.profile
    # The profile judges by the default rule, whatever the spec's is.
    judged = spec.fairness.model_copy(update={"favourable": None})
    disclosed = DisclosureRepository(session)
    shown, cuts = beside_earlier(
        planned.profile, cuts_of(planned.profile, judged), disclosed.profile_cuts(fingerprint)
    )
    disclosed.set_profile_cuts(fingerprint, cuts)
    return shown
