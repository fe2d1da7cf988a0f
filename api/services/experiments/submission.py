"""Submit an experiment once, however often the request is repeated."""

from dataclasses import dataclass
from typing import Any

import structlog
from sqlalchemy.orm import Session

from api.http.problems import ProblemError
from api.services.base.dispatch import UnitMessage
from api.services.base.idempotency import IdempotentRequest
from api.services.base.lookups import find_experiment
from api.services.experiments.admission import plan
from api.services.experiments.admitting import admitting_for
from api.services.experiments.inherited_spec import parse_inherited
from api.services.experiments.repeated_admission import admit_repeated, plan_others
from api.services.federations.simulated_noise import warnings_of
from api.services.quotas.project_quotas import refuse_over_running
from api.shared.resources import Resources
from api.shared.security import Caller
from fedaudit.privacy.accounting.mechanism_parameters import CostKind
from fedaudit.privacy.leakage import leakage
from fedaudit.privacy.mechanisms.registry import mechanism_of
from fedaudit.runs.experiment_plan import ExperimentPlan
from fedaudit.spec.parse import parse_spec
from models.identifiers import new_id
from models.repositories import AuditLogRepository, ExperimentRepository, SweepRepository
from models.repositories.experiments import ENDED
from models.tables.experiments import Experiment

log = structlog.get_logger()

RETRIED = ("failed", "cancelled")


@dataclass(frozen=True)
class Submitted:
    """The experiment's current state; `unit_message` where it was queued just now."""

    experiment: Experiment
    tags: list[str]
    unit_message: UnitMessage | None
    warnings: list[str]


def submit(
    resources: Resources, caller: Caller, value: Any, idempotency: IdempotentRequest | None
) -> Submitted:
    """Queue the experiment that a JSON value asks for. Raises InvalidInputError, ProblemError."""
    return earlier(resources, caller, idempotency) or queue_alone(
        resources,
        caller,
        plan(resources, caller, parse_inherited(resources, caller, value)),
        idempotency,
    )


def retry(
    resources: Resources,
    caller: Caller,
    experiment: Experiment,
    idempotency: IdempotentRequest | None,
) -> Submitted:
    """Queue the spec of an experiment that failed or was cancelled once more."""
    if experiment.status not in RETRIED:
        raise ProblemError(
            409,
            "conflict",
            f"the experiment is {experiment.status}; only one that failed or was cancelled can be "
            "tried again",
        )
    if before := earlier(resources, caller, idempotency):
        return before
    with resources.database.read() as session:
        cell = SweepRepository(session, caller.project_id).cell_of(experiment.id)
    if cell is not None:
        raise ProblemError(
            409,
            "conflict",
            f"the experiment is a cell of the sweep {cell[0].id}, whose costs count every try; "
            f"try its cells again by POST /v1/sweeps/{cell[0].id}/retry",
            sweep_id=cell[0].id,
        )
    return queue_alone(
        resources,
        caller,
        plan(resources, caller, parse_spec(experiment.spec)),
        idempotency,
        retry_of=experiment.id,
    )


def cancel(resources: Resources, caller: Caller, experiment_id: str) -> Submitted:
    """Request an end: `cancelled` at once where no worker has it, else `cancelling` until then.

    Raises ProblemError where it has ended otherwise.
    """
    with resources.database.write() as session:
        row = find_experiment(session, caller, experiment_id)
        if row.status in ENDED and row.status != "cancelled":
            raise ProblemError(409, "conflict", f"the experiment has ended: it is {row.status}")
        ExperimentRepository(session, caller.project_id).request_cancel(
            row.id, price=leakage, cancelled_by=caller.actor
        )
        cancelled = _submitted(resources, session, caller, row.id)
        AuditLogRepository(session, caller.project_id).enter(
            "experiment.cancelled", row.id, by=caller.actor
        )
        return cancelled


def earlier(
    resources: Resources, caller: Caller, idempotency: IdempotentRequest | None
) -> Submitted | None:
    """What the same request came to before. Raises ProblemError where its body was another one."""
    if idempotency is None:
        return None
    with resources.database.autocommit_read() as session:
        found = idempotency.lookup(session, caller)
    if found is None:
        return None
    with resources.database.read() as session:
        return _submitted(resources, session, caller, str(found.resource_id))


def queue_alone(
    resources: Resources,
    caller: Caller,
    planned: ExperimentPlan,
    idempotency: IdempotentRequest | None,
    *,
    retry_of: str | None = None,
    experiment_id: str | None = None,
) -> Submitted:
    """Queue what was planned, with its other seeds, in a transaction of its own.

    Raises ProblemError or InvalidInputError where it is refused.
    """
    experiment_id = experiment_id or new_id()
    others = plan_others(resources, caller, planned)
    with resources.database.write() as session:
        if idempotency is not None and not idempotency.claim(session, caller, experiment_id):
            # The same request came twice at once, and the other one was first.
            found = idempotency.lookup(session, caller)
            if found is not None:
                return _submitted(resources, session, caller, str(found.resource_id))
        with admitting_for(resources, session, caller) as admitting:
            if others:
                unit_message, queued = admit_repeated(
                    admitting,
                    planned,
                    others,
                    experiment_id=experiment_id,
                    by=caller.actor,
                    retry_of=retry_of,
                )
            else:
                unit_message = admitting.queue(planned)
                queued = admitting.admit(
                    planned, unit_message, experiment_id=experiment_id, retry_of=retry_of
                )
        kind = planned.ledger_context.inputs.cost_kind
        warnings = warnings_about(resources, session, caller.project_id, queued, kind)
        submitted = Submitted(queued, sorted(set(planned.spec.tags)), unit_message, warnings)
        AuditLogRepository(session, caller.project_id).enter(
            "experiment.submitted" if retry_of is None else "experiment.retried",
            experiment_id,
            by=caller.actor,
            federation_id=queued.federation_id,
            noise=queued.noise,
            retry_of=retry_of,
            spec_hash=queued.spec_hash,
        )
        refuse_over_running(session, caller.project_id, resources.settings)
    log.info("experiment queued", experiment_id=experiment_id, unit_id=unit_message.unit_id)
    return submitted


def _submitted(
    resources: Resources, session: Session, caller: Caller, experiment_id: str
) -> Submitted:
    """An experiment that was submitted before, as it is now."""
    experiments = ExperimentRepository(session, caller.project_id)
    experiment = experiments.get(experiment_id)
    if experiment is None:
        raise LookupError(f"experiment {experiment_id} was stored and is not there")
    kind = mechanism_of(parse_spec(experiment.spec)).cost_kind
    warnings = warnings_about(resources, session, caller.project_id, experiment, kind)
    tags = list(experiments.tags([experiment_id])[experiment_id])
    return Submitted(experiment, tags, None, warnings)


def warnings_about(
    resources: Resources,
    session: Session,
    project_id: str,
    experiment: Experiment,
    cost_kind: CostKind,
) -> list[str]:
    """What whoever submitted it must know, in the transaction that stores it."""
    return warnings_of(
        session,
        project_id,
        experiment.federation_id,
        noise=experiment.noise,
        cost_kind=cost_kind,
        across=resources.settings.budgets_across,
    )
