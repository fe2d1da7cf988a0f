"""Look up what a path names within the caller's project, and refuse what is gone."""

from typing import Any

from pydantic import TypeAdapter
from sqlalchemy.orm import Session

from api.http.answers import decode_cursor, encode_cursor
from api.http.problems import ProblemError, not_found
from api.schemas.base import PageParameters
from api.schemas.people import ChangeBody, ChangePage
from api.shared.security import Caller
from fedaudit.spec.base import Text
from models.identifiers import is_id
from models.repositories import (
    ErasureRepository,
    ExperimentRepository,
    ExpiredFileRepository,
    FederationRepository,
    GatePolicyRepository,
    LaterAttacksRepository,
    ReportRepository,
    SettingChangeRepository,
    SubjectSetRepository,
    WebhookEndpointRepository,
)
from models.repositories.people.setting_changes import SubjectKind
from models.tables.attacks.later_attacks import LaterAttacks
from models.tables.declared.declared_ledgers import DeclaredLedger
from models.tables.experiments import Experiment
from models.tables.federations import Federation
from models.tables.gate_policies import GatePolicy
from models.tables.lifecycle.expired_files import ExpiredFile
from models.tables.reports import Report
from models.tables.webhooks.webhook_endpoints import WebhookEndpoint
from models.values import FileKind


def find_experiment(session: Session, caller: Caller, experiment_id: str) -> Experiment:
    """Raises ProblemError where the caller's project has no such experiment."""
    found = None
    if is_id(experiment_id):
        found = ExperimentRepository(session, caller.project_id).get(experiment_id)
    if found is None:
        raise not_found("experiment")
    return found


def find_federation(session: Session, caller: Caller, federation_id: str) -> Federation:
    """Raises ProblemError where the caller's project has no such federation."""
    found = None
    if is_id(federation_id):
        found = FederationRepository(session, caller.project_id).get(federation_id)
    if found is None:
        raise not_found("federation")
    return found


def find_report(session: Session, caller: Caller, experiment_id: str) -> Report:
    """Raises ProblemError where there is no such experiment, or it has no report."""
    experiment = find_experiment(session, caller, experiment_id)
    report = ReportRepository(session, caller.project_id).get(experiment_id)
    if report is None:
        raise ProblemError(
            404, "not-found", f"the experiment has no report: it is {experiment.status}"
        )
    return report


def find_later_attacks(
    session: Session, caller: Caller, experiment_id: str, later_id: str
) -> LaterAttacks:
    """Raises ProblemError where the experiment of the caller's project has no such attacks."""
    experiment = find_experiment(session, caller, experiment_id)
    found = None
    if is_id(later_id):
        found = LaterAttacksRepository(session, caller.project_id).get(later_id)
    if found is None or found.experiment_id != experiment.id:
        raise not_found("request for attacks")
    return found


def find_gate_policy(session: Session, caller: Caller, name: str) -> GatePolicy:
    """Raises ProblemError where the caller's project has no such policy."""
    found = GatePolicyRepository(session, caller.project_id).get(name)
    if found is None:
        raise not_found("gate policy")
    return found


def find_webhook(
    session: Session, caller: Caller, webhook_id: str, *, lock: bool = False
) -> WebhookEndpoint:
    """Raises ProblemError where the caller's project has no such webhook.

    `lock`: nobody else changes it until the transaction ends.
    """
    found = None
    if is_id(webhook_id):
        endpoints = WebhookEndpointRepository(session, caller.project_id)
        found = endpoints.lock(webhook_id) if lock else endpoints.get(webhook_id)
    if found is None:
        raise not_found("webhook")
    return found


_SETTINGS: dict[FileKind, str] = {
    "artifact": "FEDAUDIT_KEEP_ARTIFACTS_DAYS",
    "attack-files": "FEDAUDIT_KEEP_RESULTS_DAYS",
    "model": "FEDAUDIT_KEEP_RESULTS_DAYS",
    "record-table": "FEDAUDIT_KEEP_RESULTS_DAYS",
}
_WHAT: dict[FileKind, str] = {
    "artifact": "the file of parameters",
    "attack-files": "what attacks found",
    "model": "the trained model",
    "record-table": "the record table",
}


def refuse_gone(session: Session, project_id: str, kind: FileKind, owner: str) -> None:
    """Raises ProblemError where the project had this file and it was removed."""
    found = ExpiredFileRepository(session, project_id).get(kind, owner)
    if found is not None:
        raise ProblemError(
            410, "gone", why_gone(found), reason=found.reason, gone_at=found.expired_at.isoformat()
        )


def why_gone(found: ExpiredFile) -> str:
    """When and why a file was removed, as a sentence."""
    when = f"{found.expired_at:%Y-%m-%d}"
    what = _WHAT[found.kind]
    if found.reason == "erased":
        return f"{what} was erased with its federation on {when}"
    days = f"{found.kept_days} days ({_SETTINGS[found.kind]})"
    return f"{what} expired on {when}: this service keeps such files for {days}"


def gone_words(session: Session, project_id: str, kind: FileKind, owner: str) -> str | None:
    """The same as a sentence for a page; None where the file was not removed."""
    found = ExpiredFileRepository(session, project_id).get(kind, owner)
    return None if found is None else why_gone(found)


def names_of(session: Session, experiment: Experiment) -> tuple[str, ...]:
    """By index. Raises ProblemError while they are being erased, LookupError where they are
    lost."""
    refuse_while_erasing(
        session, experiment.project_id, experiment.id, federation_id=experiment.federation_id
    )
    return SubjectSetRepository(session).names(experiment.subject_set_id)


def refuse_while_erasing(
    session: Session, project_id: str, owner_id: str, *, federation_id: str | None
) -> None:
    """Raises ProblemError where the clients' names of a ledger are about to be removed."""
    if ErasureRepository(session, project_id).has_names(owner_id, federation_id):
        raise ProblemError(
            409,
            "conflict",
            "the names of the clients are being erased; ask again in a few seconds",
            headers={"Retry-After": "5"},
        )


def refuse_erased(session: Session, project_id: str, ledger: DeclaredLedger) -> None:
    """Raises ProblemError where the federation of a ledger was erased: nobody can be charged."""
    if ledger.federation_id is None:
        return
    found = FederationRepository(session, project_id).get(ledger.federation_id)
    stated = ErasureRepository(session, project_id).statement(ledger.id) is not None
    if stated or (found is not None and found.status == "erased"):
        raise ProblemError(
            410,
            "gone",
            "the federation of this ledger was erased, and the names of its clients with it: it "
            "takes no more rounds; open another for data that were registered anew",
            reason="erased",
        )


_KEY: TypeAdapter[Any] = TypeAdapter(tuple[Text])


def change_page(
    session: Session,
    caller: Caller,
    parameters: PageParameters,
    *,
    subject_kind: SubjectKind,
    subject: str,
) -> ChangePage:
    """The changes of one subject by the caller's project. Raises ProblemError for a cursor of
    another list."""
    route = f"changes:{subject_kind}:{subject}"
    page = SettingChangeRepository(session, caller.project_id).list(
        subject_kind,
        subject,
        cursor=decode_cursor(route, parameters.cursor, _KEY),
        limit=parameters.limit,
    )
    return ChangePage(
        items=[ChangeBody.of(row) for row in page.items],
        next_cursor=encode_cursor(route, page.next_cursor),
    )
