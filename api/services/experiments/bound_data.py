"""The data of specs from callers who may not read federations: registered, and used as such."""

from typing import TYPE_CHECKING

from sqlalchemy.orm import Session

from api.shared.data_faults import reads_data
from api.shared.federation_files import Uploads, ready_federation
from api.shared.resources import Resources
from api.shared.security import Caller
from fedaudit.spec.errors import FieldError, InvalidInputError
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.registration import departures, parse_registration
from fedaudit.spec.sources import FileSource
from models.repositories import FederationRepository
from models.tables.federations import Federation

if TYPE_CHECKING:
    from fedaudit.federations.federation import Federation as LoadedFederation

_NOT_REGISTERED = (
    "is not registered in this project, and this API key lacks the scope federations:read: ask "
    "someone whose key has it to submit the spec, or to register the file and give you its `id`"
)


def load_for(resources: Resources, caller: Caller, spec: ExperimentSpec) -> "LoadedFederation":
    """The spec's data, if the caller may look at them so.

    Whether a spec fits a file is an answer about its cells, even in one bit. Without the scope
    `federations:read` a file must be registered, and the spec use the registered columns, groups
    and rules alone. Raises InvalidInputError.
    """
    uploads = Uploads(
        caller.project_id,
        database=resources.database,
        storage=resources.storage,
        sources_dir=resources.settings.sources_dir,
        may_read=resources.may_read(caller.project_id),
    )
    source = spec.federation
    if not reads_data(caller) and isinstance(source, FileSource):
        row = _bound(resources, caller, spec, source)
        # By its id, so that only the content is read that was registered.
        known = source.model_copy(update={"path": None, "id": row.id})
        spec = spec.model_copy(update={"federation": known})
    return resources.federations.load(spec, uploads=uploads)


def _bound(
    resources: Resources, caller: Caller, spec: ExperimentSpec, source: FileSource
) -> Federation:
    with resources.database.read() as session:
        row = _registered(session, caller, source)
    if row.registration is None:
        raise _refused(source)
    registration = parse_registration(row.registration)
    if faults := departures(spec, registration, known_groups=_groups(row, spec)):
        raise InvalidInputError(faults)
    return row


def _registered(session: Session, caller: Caller, source: FileSource) -> Federation:
    if source.id is not None:
        return ready_federation(session, caller.project_id, source.id)
    federations = FederationRepository(session, caller.project_id)
    found = federations.registered_at(source.path or "")
    if found is None:
        raise _refused(source)
    return found


def _groups(row: Federation, spec: ExperimentSpec) -> set[str]:
    """The groups of the spec's attributes that are large enough for the profile to show them."""
    attributes = (row.profile or {}).get("attributes", {})
    return {
        group
        for name in spec.fairness.sensitive
        for group, rows in attributes.get(name, {}).get("groups", {}).items()
        if rows is not None
    }


def _refused(source: FileSource) -> InvalidInputError:
    where = "/federation/path" if source.id is None else "/federation/id"
    return InvalidInputError([FieldError(where, _NOT_REGISTERED, of_spec=True)])
