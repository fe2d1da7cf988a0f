"""Check a stored report against the stored ledger by recomputing everything."""

from collections.abc import Iterator
from typing import Any

from api.schemas.experiment_tables import Check, Verification
from api.services.base.lookups import find_experiment, find_report
from api.services.reports.stored_evidence import evidence_of
from api.shared.security import Caller
from fedaudit.reports.assemble import report_hash
from fedaudit.reports.document.checks import Check as Found
from fedaudit.reports.document.checks import canonical_hash, check, value_at
from fedaudit.reports.verification.verification import ALTERED
from fedaudit.reports.verification.verification import verify as verify_evidence
from models.database import Database
from models.tables.experiments import Experiment


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
    found = verify_evidence(
        evidence_of(database, experiment, report),
        more=_check_database_columns(experiment, report, stored_hash),
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


def _hash_of(report: dict[str, Any]) -> str | None:
    try:
        return report_hash(report)
    except ValueError:
        return None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
