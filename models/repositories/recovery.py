"""What follows when a unit's workers were lost for good."""

from sqlalchemy.orm import Session

from models.repositories.attacks.later_attacks import LaterAttacksRepository
from models.repositories.audits.audits import AuditRepository
from models.repositories.experiments import ENDED, ExperimentRepository
from models.repositories.federations import FederationRepository
from models.values import LeakagePrice, ReclaimedUnit


def fail_unit(session: Session, taken: ReclaimedUnit, *, price: LeakagePrice) -> list[str]:
    """Ends the experiments of a unit that failed; returns the ids of those that it ended.

    Experiments fail with the reason `worker-lost`, or are cancelled where the caller had asked for
    it. Reservations are settled by what the ledger shows, open intents counted as spent, at the
    leakage that `price` gives. A federation that was to be profiled is rejected, and an audit
    fails, as attacks on an ended experiment do. Called in the transaction that took the unit back.
    """
    federations = FederationRepository(session, taken.project_id)
    federation = federations.of_unit(taken.unit_id)
    if federation is not None:
        fault = {"pointer": "", "message": f"{taken.reason}; upload or register it again"}
        federations.set_rejected(federation.id, [fault], unit_id=taken.unit_id)
    audits = AuditRepository(session, taken.project_id)
    audit = audits.of_unit(taken.unit_id)
    if audit is not None:
        audits.fail(audit.id, "worker-lost", [{"pointer": "", "message": taken.reason}])
    later = LaterAttacksRepository(session, taken.project_id)
    attacks = later.of_unit(taken.unit_id)
    if attacks is not None:
        later.end(attacks.id, "failed", reason="worker-lost", detail=taken.reason)
    experiments = ExperimentRepository(session, taken.project_id)
    ended = []
    for experiment in experiments.of_unit(taken.unit_id):
        if experiment.status in ENDED:
            continue
        if experiment.status == "cancelling":
            status, reason = "cancelled", "cancelled-by-caller"
        else:
            status, reason = "failed", "worker-lost"
        experiments.conclude(
            experiment.id, status=status, reason=reason, detail=taken.reason, price=price
        )
        ended.append(experiment.id)
    return ended
