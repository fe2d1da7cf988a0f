"""Tables that were sent by a form: kept for a day, looked at, and registered or thrown away.

Only the key that sent a table sees it, so that its first rows are shown to nobody else.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from api.http.problems import ProblemError, not_found
from api.services.base.idempotency import IdempotentRequest
from api.services.base.lookups import find_federation
from api.services.federations.disclosure_policies import refuse_below_floor
from api.services.federations.incoming_file import ArrivedFile
from api.services.federations.registrations import Registered, new_file, register_file
from api.services.quotas.project_quotas import refuse_over_stored
from api.shared.data_faults import shown_reasons
from api.shared.load_pool import stop_if_given_up
from api.shared.resources import Resources
from api.shared.security import Caller
from fedaudit.spec.errors import FieldError, InvalidInputError
from fedaudit.spec.registration import Registration
from models.identifiers import is_id
from models.repositories import PendingUploadRepository
from models.tables.federations import PendingUpload

if TYPE_CHECKING:
    from fedaudit.federations.proposals.column_survey import Survey
    from fedaudit.federations.proposals.proposal import Proposal
    from fedaudit.federations.reading.source_files import SourceFile, Upload

KEPT_SECONDS = 24 * 3600.0
MOST = 10
"""Uploads of a key that wait at once."""
MOST_COLUMNS = 200
"""Columns of a table that a form can show."""
FIRST_ROWS, CELL_LENGTH = 10, 40
_ROUTE = "POST /federations/new"
_SURVEYED_ROWS = 100_000
_CHECKED_BYTES = 64 * 2**20
"""Files up to this size are read to their end before they are registered; a worker tells what does
not fit in larger ones."""


@dataclass(frozen=True)
class LookedAt:
    """What a table seems to hold, and how it begins."""

    survey: "Survey"
    proposal: "Proposal | None"
    """None where no registration can be proposed; `why` says what is lacking."""
    why: str
    first_rows: list[list[str]]
    """Cells in the order of the columns, cut to CELL_LENGTH characters."""


def check_room(resources: Resources, caller: Caller) -> None:
    """Raises ProblemError where too many tables of the key wait already."""
    with resources.database.read() as session:
        waiting = PendingUploadRepository(session, caller.project_id).of_key(caller.key_id)
    if len(waiting) >= MOST:
        raise ProblemError(
            409,
            "conflict",
            f"{MOST} of your tables wait for their registration; register or discard one first",
        )


def keep_upload(resources: Resources, caller: Caller, arrived: ArrivedFile, upload_id: str) -> None:
    """Store a table until it is registered, discarded, or a day old. Raises StorageError."""
    resources.remove_expired_uploads()
    arrived.writer.commit()
    try:
        with resources.database.write() as session:
            PendingUploadRepository(session, caller.project_id).add(
                upload_id,
                api_key_id=caller.key_id,
                storage_key=arrived.storage_key,
                fingerprint=arrived.fingerprint,
                file_name=arrived.file_name,
                size_bytes=arrived.size_bytes,
                seconds=KEPT_SECONDS,
            )
            refuse_over_stored(session, caller.project_id, resources.settings)
    except BaseException:
        resources.storage.delete(arrived.storage_key)
        raise


def waiting_uploads(resources: Resources, caller: Caller) -> list[PendingUpload]:
    """The caller's tables that wait, newest first."""
    with resources.database.read() as session:
        return list(PendingUploadRepository(session, caller.project_id).of_key(caller.key_id))


def find_upload(resources: Resources, caller: Caller, upload_id: str) -> PendingUpload:
    """The caller's table. Raises ProblemError where there is none, or not any more."""
    found = None
    if is_id(upload_id):
        with resources.database.read() as session:
            uploads = PendingUploadRepository(session, caller.project_id)
            found = uploads.get(upload_id, api_key_id=caller.key_id)
    if found is None:
        raise not_found("uploaded table; it may have been registered or a day old")
    return found


def discard(resources: Resources, caller: Caller, upload_id: str) -> None:
    """Remove a table that nobody registered."""
    _throw_away(resources, caller, find_upload(resources, caller, upload_id))


def look_at(
    resources: Resources,
    upload: PendingUpload,
    *,
    header: bool,
    client_key: str | None = None,
    target: str | None = None,
) -> LookedAt:
    """A proposal from the table's first rows. Raises InvalidInputError for what is no table."""
    # Imported here because this package loads pyarrow.
    from fedaudit.federations.proposals.column_survey import survey_table
    from fedaudit.federations.proposals.proposal import propose

    with _opened(resources, upload) as file:
        rows = _first_rows(file, header=header)
        stop_if_given_up()
        survey = survey_table(file, header=header, most_rows=_SURVEYED_ROWS)
    proposal, why = None, ""
    try:
        proposal = propose(
            survey, name=upload.file_name, header=header, client_key=client_key, target=target
        )
    except InvalidInputError as error:
        why = "; ".join(one.message for one in error.errors)
    return LookedAt(survey, proposal, why, rows)


def register_pending(
    resources: Resources, caller: Caller, upload_id: str, registration: Registration
) -> Registered:
    """Register a table as the form says; the same form sent twice registers once.

    Raises InvalidInputError for what does not fit, ProblemError.
    """
    value = registration.model_dump(mode="json")
    once = IdempotentRequest.of(f"upload-{upload_id}", _ROUTE, value)
    try:
        upload = find_upload(resources, caller, upload_id)
    except ProblemError:
        earlier = _registered_before(resources, caller, once)
        if earlier is None:
            raise
        return earlier
    refuse_below_floor(resources.settings, registration.fairness)
    source = registration.federation.model_copy(update={"path": upload.file_name})
    registration = registration.model_copy(update={"federation": source})
    if upload.size_bytes <= _CHECKED_BYTES:
        _check_data(resources, caller, upload, registration)
    file = new_file(
        registration,
        upload.fingerprint,
        upload.file_name,
        upload.size_bytes,
        storage_key=upload.storage_key,
    )
    registered = register_file(resources, caller, file, once, pending=upload.id)
    if registered.federation.storage_key != upload.storage_key:
        # The project had the content already.
        _throw_away(resources, caller, upload)
    return registered


def _throw_away(resources: Resources, caller: Caller, upload: PendingUpload) -> None:
    """Remove a table and its file, unless a federation has the file by now."""
    with resources.database.write() as session:
        uploads = PendingUploadRepository(session, caller.project_id)
        # The row first, which whoever registers the file locks; it stays where the storage fails,
        # and can be discarded again.
        if uploads.remove(upload.id) and not uploads.is_registered(upload.storage_key):
            resources.storage.delete(upload.storage_key)


def _registered_before(
    resources: Resources, caller: Caller, once: IdempotentRequest | None
) -> Registered | None:
    assert once is not None
    with resources.database.read() as session:
        found = once.lookup(session, caller)
        if found is None:
            return None
        return Registered(find_federation(session, caller, str(found.resource_id)), None)


def _check_data(
    resources: Resources, caller: Caller, upload: PendingUpload, registration: Registration
) -> None:
    """Every fault of the data at once, while the form can still be corrected."""
    from fedaudit.federations.load import profile_registration
    from fedaudit.federations.reading.source_files import Files

    source = registration.federation.model_copy(update={"path": None, "id": upload.id})
    try:
        profile_registration(
            registration.model_copy(update={"federation": source}),
            files=Files(open_upload=_opener(resources, upload)),
            progress=stop_if_given_up,
        )
    except InvalidInputError as error:
        stored: list[dict[str, Any]] = [
            {
                "pointer": one.pointer.replace("/federation/id", "/federation/path"),
                "message": one.message,
            }
            for one in error.errors
        ]
        shown = shown_reasons(stored, caller=caller)
        faults = [FieldError(one["pointer"], one["message"]) for one in shown]
        raise InvalidInputError(faults) from None


def _opener(resources: Resources, upload: PendingUpload) -> "Callable[[str], Any]":
    from fedaudit.federations.reading.source_files import Upload

    @contextmanager
    def opened(_id: str) -> "Iterator[Upload]":
        with resources.storage.local(upload.storage_key) as place:
            yield Upload(place, upload.file_name, upload.fingerprint)

    return opened


@contextmanager
def _opened(resources: Resources, upload: PendingUpload) -> "Iterator[SourceFile]":
    from fedaudit.federations.reading.source_files import open_stored

    with (
        resources.storage.local(upload.storage_key) as place,
        open_stored(place, upload.file_name) as file,
    ):
        yield file


def _first_rows(file: "SourceFile", *, header: bool) -> list[list[str]]:
    from fedaudit.federations.reading.table_files import TableFile

    table = TableFile(file, header=header)
    if len(table.names) > MOST_COLUMNS:
        raise file.fault(
            f"has {len(table.names)} columns, and the form shows {MOST_COLUMNS} at most; register "
            "it by `fedaudit federations scaffold` and `add`, or take out columns"
        )
    for batch in table.batches(table.names):
        part = batch.part(0, FIRST_ROWS)
        columns = [part.text(name, "/federation/path").to_pylist() for name in table.names]
        return [[_cut(cell) for cell in row] for row in zip(*columns, strict=True)]
    return []


def _cut(cell: str) -> str:
    return cell if len(cell) <= CELL_LENGTH else f"{cell[: CELL_LENGTH - 1]}…"
