"""The end of attacks on an experiment with a report: what was found, and how it is judged now."""

from sqlalchemy.orm import Session

from fedaudit.ledger.signatures import Envelope, SigningKey
from fedaudit.reports.later import LaterStatement, judged_later
from fedaudit.reports.sections.attacks import raised_alarms
from models.repositories import (
    EventRepository,
    ExperimentRepository,
    LaterAttacksRepository,
    ReportRepository,
)
from models.tables.reports import LaterAttacks, Report
from models.values import FoundLater, LaterAttacksStatus
from workers.finish import GATE_EVALUATED, alarm_events, report_index
from workers.proof.signing import use_key


def end_later(
    session: Session,
    row: LaterAttacks,
    report: Report,
    statement: LaterStatement,
    *,
    status: LaterAttacksStatus,
    key: SigningKey,
) -> None:
    """Store what was found, signed behind what was found before, and judge the experiment by all
    of it: an alarm counts as one of the report does. Changes nothing where it has ended."""
    later = LaterAttacksRepository(session, row.project_id)
    before = judged_later(report.document, later.sections(row.experiment_id))
    newest = later.newest_envelope(row.experiment_id)
    envelope = statement.sign(key, after=None if newest is None else Envelope.from_dict(newest))
    raised = len(raised_alarms(statement.fields()))
    found = FoundLater(statement=statement.fields(), envelope=envelope.as_dict(), alarms=raised)
    reason = "cancelled-by-caller" if status == "cancelled" else None
    if not later.end(row.id, status, reason=reason, found=found):
        return
    use_key(session, key)
    judged = judged_later(report.document, later.sections(row.experiment_id))
    changed = [gate for gate in judged["gates"] if gate not in before["gates"]]
    events = [(GATE_EVALUATED, gate) for gate in changed]
    events += alarm_events(statement.attacks, later=row.number)
    EventRepository(session).append(row.experiment_id, row.project_id, events)
    ReportRepository(session).restate(row.experiment_id, summary=report_index(judged).summary)
    ExperimentRepository(session, row.project_id).judge_later(
        row.experiment_id,
        raised=raised,
        alarms=len(raised_alarms(judged)),
        gate_outcome=judged["gate_outcome"],
    )
