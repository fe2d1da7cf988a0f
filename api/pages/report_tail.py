"""What stands below a report within the service: its sign-offs, and what can be taken away."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from markupsafe import Markup
from sqlalchemy.orm import Session

from api.pages.downloads import downloads
from api.pages.session import CSRF_FIELD, Visitor
from api.pages.spec_form.sheet import new_once
from api.pages.templates import fragment
from api.schemas.experiments import AttackList, LaterAttacksList
from api.schemas.people import SignOffList
from api.services.attacks.judged_reports import judged_document
from api.services.lookups import find_report
from api.services.reports import sign_offs_of
from fedaudit.reports.verdict.concerns import CONCERN_WORDS, concerns_of
from models.repositories import LaterAttacksRepository


@dataclass(frozen=True)
class ReportTail:
    """The section, and in a few words how the report is signed off."""

    html: Markup
    state: str


def report_tail(
    session: Session,
    visitor: Visitor,
    experiment_id: str,
    *,
    draft: Mapping[str, str] | None = None,
    fault: str | None = None,
    attacks: AttackList | None = None,
    later: LaterAttacksList | None = None,
) -> ReportTail:
    """Raises ProblemError without such a report. `draft`: what was typed and could not be taken.
    `attacks`, `later`: what the visitor may see of their files."""
    report = find_report(session, visitor.caller, experiment_id)
    base = f"/experiments/{experiment_id}"
    found = SignOffList.of(sign_offs_of(session, visitor.caller, experiment_id))
    html = fragment(
        "report_tail.html",
        base=base,
        visitor=visitor,
        csrf_field=CSRF_FIELD,
        once=new_once(),
        sign_offs=found,
        report_hash=report.report_hash,
        concerns=concerns_of(judged_document(session, report)),
        concern_words=CONCERN_WORDS,
        draft=draft or {},
        fault=fault,
        files=downloads(base, visitor, attacks=attacks, later=later),
        alarm_at=_alarm_at(session, visitor, experiment_id),
    )
    return ReportTail(html, _state(found))


def _alarm_at(session: Session, visitor: Visitor, experiment_id: str) -> datetime | None:
    """When an attack first raised an alarm after the report was signed."""
    rows = LaterAttacksRepository(session, visitor.caller.project_id).list(experiment_id)
    raised = [row.finished_at for row in rows if row.alarms and row.finished_at is not None]
    return min(raised, default=None)


def _state(found: SignOffList) -> str:
    if not found.items:
        return "not signed off"
    newest = found.items[-1]
    words = f"{newest.decision.replace('-', ' ')} by {newest.person}"
    return f"{words}, against concerns" if newest.concerns else words
