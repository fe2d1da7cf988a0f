"""Submit an experiment once, however often the request is repeated."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy.orm import Session

from api.http.problems import ProblemError
from api.services.base.dispatch import UnitMessage
from api.services.base.idempotency import IdempotentRequest
from api.services.base.lookups import find_experiment
from api.services.experiments.admission import admit, plan
from api.services.federations.simulated_noise import warnings_of
from api.shared.resources import Resources
from api.shared.security import Caller
from fedaudit.privacy.metric.leakage import leakage
from fedaudit.runs.experiment_plan import ExperimentPlan
from fedaudit.spec.parse import parse_spec
from models.identifiers import new_id
from models.repositories import ExperimentRepository
from models.repositories.experiments import ENDED
from models.tables.experiments import Experiment

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
    return _earlier(resources, caller, idempotency) or _queue(
        resources, caller, plan(resources, caller, parse_spec(value)), idempotency
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
    return _earlier(resources, caller, idempotency) or _queue(
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
        ExperimentRepository(session, caller.project_id).request_cancel(row.id, price=leakage)
        return _submitted(resources, session, caller, row.id, None)


def _earlier(
    resources: Resources, caller: Caller, idempotency: IdempotentRequest | None
) -> Submitted | None:
    if idempotency is None:
        return None
    with resources.database.read() as session:
        found = idempotency.lookup(session, caller)
        if found is None:
            return None
        return _submitted(resources, session, caller, str(found.resource_id), None)


def _queue(
    resources: Resources,
    caller: Caller,
    planned: ExperimentPlan,
    idempotency: IdempotentRequest | None,
    *,
    retry_of: str | None = None,
) -> Submitted:
    experiment_id = new_id()
    with resources.database.write() as session:
        if idempotency is not None and not idempotency.claim(session, caller, experiment_id):
            # The same request came twice at once, and the other one was first.
            found = idempotency.lookup(session, caller)
            if found is not None:
                return _submitted(resources, session, caller, str(found.resource_id), None)
        unit_message = admit(
            session,
            caller.project_id,
            planned,
            experiment_id=experiment_id,
            max_attempts=resources.settings.max_attempts,
            across=resources.settings.budgets_across,
            retry_of=retry_of,
        )
        return _submitted(resources, session, caller, experiment_id, unit_message)


def _submitted(
    resources: Resources,
    session: Session,
    caller: Caller,
    experiment_id: str,
    unit_message: UnitMessage | None,
) -> Submitted:
    experiments = ExperimentRepository(session, caller.project_id)
    experiment = experiments.get(experiment_id)
    if experiment is None:
        raise LookupError(f"experiment {experiment_id} was stored and is not there")
    warnings = warnings_of(
        session,
        caller.project_id,
        experiment.federation_id,
        noise=experiment.noise,
        across=resources.settings.budgets_across,
    )
    tags = list(experiments.tags([experiment_id])[experiment_id])
    return Submitted(experiment, tags, unit_message, warnings)
