"""Check a stored report against the stored ledger by recomputing everything."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from typing import Any

from api.schemas.experiment_tables import Check, Verification
from api.services.base.lookups import find_experiment, find_report
from api.services.reports.history_check import HistoryCheck
from api.services.reports.stored_evidence import evidence_of
from api.shared.security import Caller
from fedaudit.ledger.signatures import Envelope
from fedaudit.ledger.statements import ChainedSignOff
from fedaudit.ledger.statements import SignOff as Statement
from fedaudit.reports.assemble import report_hash
from fedaudit.reports.document.attacks.raised_alarms import raised_alarms
from fedaudit.reports.document.checks import Check as Found
from fedaudit.reports.document.checks import canonical_hash, check, unchecked, value_at
from fedaudit.reports.later.later_statement import statement_in, statement_of
from fedaudit.reports.verification.verification import ALTERED
from fedaudit.reports.verification.verification import verify as verify_evidence
from models.database import Database
from models.repositories import LaterAttacksRepository, SignOffRepository
from models.tables.experiments import Experiment
from models.tables.reports import LaterAttacks, SignOff


def verification_of(database: Database, caller: Caller, experiment_id: str) -> Verification:
    """The verification of an experiment of the caller's project.

    Raises ProblemError without such an experiment, or without a report of it.
    """
    with database.read() as session:
        experiment = find_experiment(session, caller, experiment_id)
        try:
            report = find_report(session, caller, experiment_id)
        except ValueError:
            # SQLite keeps JSON as text: a single changed byte can make it invalid.
            return verify(database, experiment, None, stored_hash="")
    return verify(database, experiment, report.document, stored_hash=report.report_hash)


def verify(
    database: Database, experiment: Experiment, document: Any, *, stored_hash: str
) -> Verification:
    """The verification of the stored rows, which are read in short transactions.

    No key is trusted here: a service that vouches for its own keys proves nothing. `stored_hash`:
    the hash stored beside the report.
    """
    report = document if isinstance(document, dict) else {}
    history = HistoryCheck(database, experiment.id, experiment.project_id)
    evidence = evidence_of(database, experiment, report)
    found = verify_evidence(
        replace(evidence, rows=history.watched(evidence.rows)),
        # Taken one by one once the rows were read.
        more=chain(
            history.checks(),
            _check_database_columns(experiment, report, stored_hash),
            _check_sign_offs(database, experiment),
            _check_later_attacks(database, experiment),
        ),
    )
    integrity = value_at(report, "integrity")
    reasons = value_at(integrity, "reasons")
    return Verification(
        experiment_id=experiment.id,
        valid=found.verdict != ALTERED,
        verdict=found.verdict,
        checks=[
            Check(name=one.name, outcome=one.outcome, detail=one.detail) for one in found.checks
        ],
        entries=found.entries,
        ledger_hash=found.ledger_hash,
        chain_head=found.chain_head,
        signature=_text(value_at(integrity, "signature")),
        key_id=_text(value_at(integrity, "key_id")),
        reasons=reasons if isinstance(reasons, dict) else {},
    )


def _check_database_columns(
    experiment: Experiment, report: dict[str, Any], stored_hash: str
) -> Iterator[Found]:
    """The checks that only the database's own columns allow."""
    yield check(
        "report.hash",
        _hash_of(report) == stored_hash,
        good="the report is the one that was stored",
        bad="the report was altered after it was stored",
    )
    yield check(
        "experiment.spec_hash",
        canonical_hash(experiment.spec) == experiment.spec_hash,
        good="the stored spec is the one that was submitted",
        bad="the stored spec was altered after it was submitted",
    )


def _check_sign_offs(database: Database, experiment: Experiment) -> Iterator[Found]:
    """What waits for its signature, and what the columns say beside the signed statements."""
    with database.read() as session:
        try:
            rows = SignOffRepository(session, experiment.project_id).list(experiment.id)
        except ValueError:
            return
    if not rows:
        return
    wrong, waiting = [], 0
    for row in rows:
        waiting += row.envelope is None
        if not _is_as_signed(row):
            wrong.append(str(row.number))
    yield check(
        "sign_offs.stored",
        not wrong,
        good="what is shown of sign-offs is what was signed",
        bad=f"altered beside what was signed: {', '.join(wrong[:3])}",
    )
    if waiting:
        yield unchecked("sign_offs.waiting", f"{waiting} waiting for the service's signature")


def _check_later_attacks(database: Database, experiment: Experiment) -> Iterator[Found]:
    """What the columns say beside the signed statements on attacks after the report."""
    with database.read() as session:
        try:
            rows = LaterAttacksRepository(session, experiment.project_id).list(experiment.id)
        except ValueError:
            return
    if not rows:
        return
    wrong = [str(row.number) for row in rows if not _is_as_found(row)]
    yield check(
        "later_attacks.stored",
        not wrong,
        good="what is shown of later attacks is what was signed",
        bad=f"altered beside what was signed: {', '.join(wrong[:3])}",
    )


def _is_as_found(row: LaterAttacks) -> bool:
    if row.envelope is None:
        return row.statement is None and row.alarms is None
    try:
        signed, _ = statement_in(Envelope.from_dict(row.envelope))
        stated = statement_of(row.statement)
    except ValueError:
        return False
    place = (signed.experiment_id, signed.number, signed.report_hash, signed.ledger_hash)
    stored = (row.experiment_id, row.number, row.report_hash, row.ledger_hash)
    alarms = len(raised_alarms(signed.fields()))
    return signed == stated and (place, alarms) == (stored, row.alarms)


def _is_as_signed(row: SignOff) -> bool:
    try:
        stated = Statement.of_fields(row.statement)
        if row.envelope is not None:
            signed = ChainedSignOff.of(Envelope.from_dict(row.envelope)).sign_off
            if signed != stated:
                return False
    except ValueError:
        return False
    place = (stated.experiment_id, stated.number, stated.report_hash, stated.decision)
    return place == (row.experiment_id, row.number, row.report_hash, row.decision)


def _hash_of(report: dict[str, Any]) -> str | None:
    try:
        return report_hash(report)
    except ValueError:
        return None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
