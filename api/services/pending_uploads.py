"""Proposals of experiments, and uploaded tables that wait for a registration.

Only the key that sent a table sees it, so its first rows are shown to no other.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from api.http.problems import ProblemError, conflict
from api.schemas.federations import BudgetBody, shown_profile
from api.services.budgets import budgets_of
from api.services.disclosure import floor_of, policy_of, refuse_below_floor
from api.services.dispatch import IdempotentRequest
from api.services.lookups import find_federation, found_by
from api.services.registrations import Registered, new_file, register_file
from api.services.uploads import ArrivedFile
from api.shared.data_faults import shown_reasons
from api.shared.resources import Resources
from api.shared.security import Call, refuse_over_stored
from fedaudit.runs.declared_facts import DeclaredFacts, shown_facts
from fedaudit.runs.proposed_experiment import ProposalAim, ProposedExperiment, propose_experiment
from fedaudit.spec.errors import FieldError, InvalidInputError
from fedaudit.spec.registration import Registration
from fedaudit.stored import CostFigure
from models.clock import seconds_from_now
from models.repositories import PendingUploadRepository
from models.repositories.budgets.counting import counts_report
from models.tables.federations import Federation, PendingUpload

if TYPE_CHECKING:
    from fedaudit.federations.proposals.column_survey import Survey
    from fedaudit.federations.proposals.proposal import Proposal
    from fedaudit.federations.reading.source_files import SourceFile


def proposal_for(call: Call, row: Federation, aim: ProposalAim) -> ProposedExperiment:
    """The experiment that suits the federation; nothing is stored, and no row is read. Raises
    ProblemError where it is not ready."""
    profile = shown_profile(row)
    if row.status != "ready" or row.registration is None or not profile:
        raise conflict("the federation is not ready; register its file, and wait for its profile")
    if why := profile.get("reasons", {}).get("classes"):
        raise conflict(f"nothing can be proposed for the target's classes: {why}")
    reports, budgets = list[BudgetBody](), list[BudgetBody]()
    for one in budgets_of(call, row.id):
        (reports if counts_report(one.observer) else budgets).append(one)
    # A run without noise is in both books.
    other = "release" if row.simulation == "allowed" else "simulation"
    books = {"simulation", "release"} - ({other} if aim.private else set())
    return propose_experiment(
        DeclaredFacts(
            federation_id=row.id,
            name=row.name,
            registration=row.registration,
            **shown_facts(profile),
            policy=policy_of(row),
            floor=floor_of(call.resources.settings),
            may_simulate=row.simulation == "allowed",
            epsilon_left=_left(budgets, "epsilon"),
            epsilon_delta=min(
                (one.delta for one in budgets if one.total and one.delta), default=None
            ),
            leakage_left=_left(budgets, "leakage"),
            bounds_reports=any(one.total is not None and one.book in books for one in reports),
        ),
        aim,
    )


def _left(budgets: Sequence[BudgetBody], figure: CostFigure) -> float | None:
    """The smallest remainder of a figure; None where no total is set. Raises ProblemError where
    nothing is left."""
    left = [one.remaining for one in budgets if one.figure == figure and one.remaining is not None]
    if left and min(left) <= 0:
        raise conflict(f"nothing is left of a total of the federation's {figure}")
    return min(left, default=None)


KEPT_SECONDS = 24 * 3600.0
MOST = 10
"""Uploads of a key that wait at once."""
MOST_COLUMNS = 200
"""Columns of a table that a form can show."""
FIRST_ROWS, CELL_LENGTH = 10, 40
_ROUTE = "POST /federations/new"
SURVEYED_ROWS = 100_000
"""Rows that a proposal is made from; the command line reads more."""
_CHECKED_BYTES = 64 * 2**20
"""Files up to this size are read to their end before they are registered; a worker reports what
does not fit in larger ones."""


@dataclass(frozen=True)
class LookedAt:
    """What a table seems to hold, and how it begins."""

    survey: "Survey"
    proposal: "Proposal | None"
    """None where no registration can be proposed; `why` says what is lacking."""
    why: str
    first_rows: list[list[str]]
    """Cells in the order of the columns, cut to CELL_LENGTH characters."""


def check_room(call: Call) -> None:
    """Raises ProblemError where too many tables of the key wait already."""
    if len(waiting_uploads(call)) >= MOST:
        raise conflict(
            f"{MOST} of your tables wait for their registration; register or discard one first"
        )


def keep_upload(call: Call, arrived: ArrivedFile, upload_id: str) -> None:
    """Store a table until it is registered, discarded, or a day old. Raises StorageError."""
    call.resources.remove_expired_uploads()
    arrived.writer.commit()
    try:
        with call.writing() as session:
            PendingUploadRepository(session, call.project_id).store(
                PendingUpload(
                    id=upload_id,
                    project_id=call.project_id,
                    api_key_id=call.caller.key_id,
                    storage_key=arrived.storage_key,
                    fingerprint=arrived.fingerprint,
                    file_name=arrived.file_name,
                    size_bytes=arrived.size_bytes,
                    created_at=seconds_from_now(),
                    expires_at=seconds_from_now(KEPT_SECONDS),
                )
            )
            refuse_over_stored(session, call.project_id, call.resources.settings)
    except BaseException:
        call.resources.storage.delete(arrived.storage_key)
        raise


def waiting_uploads(call: Call) -> list[PendingUpload]:
    """The caller's tables that wait, newest first."""
    with call.reading() as session:
        return list(PendingUploadRepository(session, call.project_id).of_key(call.caller.key_id))


def find_upload(call: Call, upload_id: str) -> PendingUpload:
    """The caller's table. Raises ProblemError where there is none, or not any more."""
    with call.reading() as session:
        uploads = PendingUploadRepository(session, call.project_id)
        return found_by(
            lambda id_: uploads.get(id_, api_key_id=call.caller.key_id),
            upload_id,
            "uploaded table; it may have been registered or a day old",
        )


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
    from fedaudit.federations.reading.source_files import open_stored

    with (
        resources.storage.local(upload.storage_key) as place,
        open_stored(place, upload.file_name) as file,
    ):
        rows = _first_rows(file, header=header)
        survey = survey_table(file, header=header, most_rows=SURVEYED_ROWS)
    proposal, why = None, ""
    try:
        proposal = propose(survey, name=upload.file_name, client_key=client_key, target=target)
    except InvalidInputError as error:
        why = "; ".join(one.message for one in error.errors)
    return LookedAt(survey, proposal, why, rows)


def register_pending(call: Call, upload_id: str, registration: Registration) -> Registered:
    """Register a table as the form says; the same form sent twice registers once. Raises
    InvalidInputError for what does not fit, ProblemError."""
    value = registration.model_dump(mode="json")
    once = IdempotentRequest.of(f"upload-{upload_id}", _ROUTE, value)
    try:
        upload = find_upload(call, upload_id)
    except ProblemError:
        earlier = once.before(call, find_federation)
        if earlier is None:
            raise
        return earlier
    refuse_below_floor(call.resources.settings, registration.fairness)
    source = registration.federation.model_copy(update={"path": upload.file_name})
    registration = registration.model_copy(update={"federation": source})
    if upload.size_bytes <= _CHECKED_BYTES:
        _check_data(call, upload, registration)
    file = new_file(upload, registration)
    registered = register_file(call, file, once, pending=upload.id)
    if registered.row.storage_key != upload.storage_key:
        # The project had the content already.
        call.resources.discard_upload(upload)
    return registered


def _check_data(call: Call, upload: PendingUpload, registration: Registration) -> None:
    """Every fault of the data at once, while the form can still be corrected."""
    from fedaudit.federations.load import RegisteredData
    from fedaudit.federations.reading.source_files import Files, Upload

    @contextmanager
    def opened(_id: str) -> "Iterator[Upload]":
        with call.resources.storage.local(upload.storage_key) as place:
            yield Upload(place, upload.file_name, upload.fingerprint)

    source = registration.federation.model_copy(update={"path": None, "id": upload.id})
    try:
        RegisteredData(
            registration.model_copy(update={"federation": source}), Files(open_upload=opened)
        ).profile()
    except InvalidInputError as error:
        stored = [
            {"pointer": one.pointer.replace("/federation/id", "/federation/path")}
            | {"message": one.message}
            for one in error.errors
        ]
        shown = shown_reasons(stored, caller=call.caller)
        raise InvalidInputError([FieldError(**one) for one in shown]) from None


def _first_rows(file: "SourceFile", *, header: bool) -> list[list[str]]:
    from fedaudit.federations.reading.table_files import TableFile

    def cut(cell: str) -> str:
        return cell if len(cell) <= CELL_LENGTH else f"{cell[: CELL_LENGTH - 1]}…"

    table = TableFile(file, header=header)
    if len(table.names) > MOST_COLUMNS:
        raise file.fault(
            f"has {len(table.names)} columns, and the form shows {MOST_COLUMNS} at most; register "
            "it by `fedaudit federations scaffold` and `add`, or take out columns"
        )
    for batch in table.batches(table.names):
        part = batch.part(0, FIRST_ROWS)
        columns = [part.text(name, "/federation/path").to_pylist() for name in table.names]
        return [[cut(cell) for cell in row] for row in zip(*columns, strict=True)]
    return []
