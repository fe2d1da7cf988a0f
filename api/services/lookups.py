"""Look up what a path names within the caller's project, refuse what is gone, and list pages."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, TypeAdapter
from sqlalchemy.orm import Session

from api.http.answers import decode_cursor, encode_cursor
from api.http.problems import ProblemError, conflict, not_found
from api.schemas.base import PageParameters
from api.shared.security import Call, Caller
from fedaudit.reports.report import OTHER_FORM, has_present_form, judged_later
from models.repositories import (
    AuditLogRepository,
    ErasureRepository,
    ExperimentRepository,
    ExpiredFileRepository,
    FederationRepository,
    LaterAttacksRepository,
    ReportRepository,
    SubjectSetRepository,
    WebhookEndpointRepository,
)
from models.repositories.base import RowRepository
from models.tables.accounts import WebhookEndpoint
from models.tables.base import Base
from models.tables.experiments import Experiment, LaterAttacks, Report
from models.tables.federations import ExpiredFile
from models.tables.ledger import DeclaredLedger
from models.values import AuditAction, FileKind, Page, is_id

Row = TypeVar("Row")
Stored = TypeVar("Stored", bound=Base)
AnyPage = TypeVar("AnyPage", bound=BaseModel)

_WHAT: dict[FileKind, str] = {
    "artifact": "the file of parameters",
    "attack-files": "what attacks found",
    "model": "the trained model",
    "record-table": "the record table",
}


def found_by(get: Callable[[str], Row | None], id_: str, what: str) -> Row:
    """What `get` finds by an id. Raises ProblemError where it finds nothing, or it is no id."""
    row = get(id_) if is_id(id_) else None
    if row is None:
        raise not_found(what)
    return row


def finder(
    rows: type[RowRepository[Stored]], what: str
) -> Callable[[Session, Caller, str], Stored]:
    """A function that finds what an id names among the rows of the caller's project, and raises
    ProblemError where there is none."""

    def find(session: Session, caller: Caller, id_: str) -> Stored:
        return found_by(rows(session, caller.project_id).get, id_, what)

    return find


find_experiment = finder(ExperimentRepository, "experiment")
find_federation = finder(FederationRepository, "federation")


def find_report(session: Session, caller: Caller, experiment_id: str) -> Report:
    """Raises ProblemError where there is no such experiment, it has no report, or one of another
    version of fedaudit, which is served as it was stored and not read."""
    report = find_stored_report(session, caller, experiment_id)
    if not has_present_form(report.document):
        raise conflict(OTHER_FORM)
    return report


def judged_document(session: Session, report: Report) -> dict[str, Any]:
    """The document that decides: a stored report beside what attacks found after it was signed."""
    later = LaterAttacksRepository(session, report.project_id).sections(report.experiment_id)
    return judged_later(report.document, later)


def find_judged(session: Session, caller: Caller, experiment_id: str) -> dict[str, Any]:
    """The same of an experiment of the caller's project. Raises ProblemError without a report."""
    return judged_document(session, find_report(session, caller, experiment_id))


def find_stored_report(session: Session, caller: Caller, experiment_id: str) -> Report:
    """Raises ProblemError where there is no such experiment, or it has no report."""
    reports = ReportRepository(session, caller.project_id)
    report = reports.get(experiment_id) if is_id(experiment_id) else None
    if report is None:
        experiment = find_experiment(session, caller, experiment_id)
        detail = f"the experiment has no report: it is {experiment.status}"
        raise ProblemError("not-found", detail)
    return report


def find_later_attacks(
    session: Session, caller: Caller, later_id: str, *, experiment_id: str
) -> LaterAttacks:
    """Raises ProblemError where the experiment of the caller's project has no such attacks."""
    experiment = find_experiment(session, caller, experiment_id)
    get = LaterAttacksRepository(session, caller.project_id).get
    found = found_by(get, later_id, "request for attacks")
    if found.experiment_id != experiment.id:
        raise not_found("request for attacks")
    return found


def find_webhook(
    session: Session, caller: Caller, webhook_id: str, *, lock: bool = False
) -> WebhookEndpoint:
    """The webhook, locked until the transaction ends where `lock` is set. Raises ProblemError where
    the caller's project has none of this id."""
    endpoints = WebhookEndpointRepository(session, caller.project_id)
    return found_by(endpoints.lock if lock else endpoints.get, webhook_id, "webhook")


def refuse_gone(session: Session, project_id: str, kind: FileKind, owner: str) -> None:
    """Raises ProblemError (410, with when and why) where the project had this file and it was
    removed."""
    found = ExpiredFileRepository(session, project_id).get(kind, owner)
    if found is not None:
        raise ProblemError(
            "gone", _why_gone(found), reason=found.reason, gone_at=found.expired_at.isoformat()
        )


def gone_words(session: Session, project_id: str, kind: FileKind, owner: str) -> str | None:
    """The same as a sentence for a page; None where the file was not removed."""
    found = ExpiredFileRepository(session, project_id).get(kind, owner)
    return None if found is None else _why_gone(found)


def _why_gone(found: ExpiredFile) -> str:
    when, what = f"{found.expired_at:%Y-%m-%d}", _WHAT[found.kind]
    if found.reason == "erased":
        return f"{what} was erased with its federation on {when}"
    # Files of parameters were removed after a time by earlier versions alone.
    setting = "" if found.kind == "artifact" else " (FEDAUDIT_KEEP_RESULTS_DAYS)"
    days = f"{found.kept_days} days{setting}"
    return f"{what} expired on {when}: this service keeps such files for {days}"


def names_of(session: Session, owner: Experiment | DeclaredLedger) -> Sequence[str]:
    """The names of a ledger's clients, or the pseudonyms of erased ones, by index. Raises
    ProblemError while they are being erased, LookupError where they are lost."""
    erasures = ErasureRepository(session, owner.project_id)
    if erasures.has_names(owner.id, owner.federation_id):
        detail = "the names of the clients are being erased; ask again in a few seconds"
        raise conflict(detail, retry_seconds=5)
    if isinstance(owner, DeclaredLedger):
        return owner.names
    return SubjectSetRepository(session).names(owner.subject_set_id)


def refuse_erased(session: Session, project_id: str, ledger: DeclaredLedger) -> None:
    """Raises ProblemError where the federation of a ledger was erased: no client can be charged."""
    if ledger.federation_id is None:
        return
    found = FederationRepository(session, project_id).get(ledger.federation_id)
    stated = ErasureRepository(session, project_id).statement(ledger.id) is not None
    if stated or (found is not None and found.status == "erased"):
        raise ProblemError(
            "gone",
            "the federation of this ledger was erased, and the names of its clients with it: it "
            "takes no more rounds; open another for data that were registered anew",
            reason="erased",
        )


def list_page(
    model: type[AnyPage],
    route: str,
    parameters: PageParameters,
    rows: Callable[..., Page[Row]],
    bodies: Callable[[Sequence[Row]], Iterable[BaseModel]],
    *,
    key: TypeAdapter[Any] | None = None,
) -> AnyPage:
    """A page of a list: `rows` finds the stored rows after a cursor, `bodies` shows them. `route`
    and `key` are those of its cursors, as in `decode_cursor`. Raises ProblemError for a cursor of
    another list."""
    page = rows(cursor=decode_cursor(route, parameters.cursor, key), limit=parameters.limit)
    following = encode_cursor(route, page.next_cursor)
    return model(items=list(bodies(page.items)), next_cursor=following)


def note(
    session: Session, caller: Caller, action: AuditAction, subject: str, **details: Any
) -> None:
    """Enter what the caller does on the audit log, last in the transaction."""
    AuditLogRepository(session, caller.project_id).enter(
        action, subject, by=caller.actor, **details
    )


def note_export(call: Call, subject: str, form: str) -> None:
    """Enter the export of a confidential ledger before its first byte leaves."""
    with call.writing() as session:
        note(session, call.caller, "ledger.exported", subject, form=form)
