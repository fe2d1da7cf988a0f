"""Admission: whether a spec can be run and paid for, and its entry into the queue."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import structlog
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from api.problems import ProblemError
from api.resources import Resources
from fedaudit.networks.shape import parameter_count
from fedaudit.privacy.projection import Projection, project_cost
from fedaudit.spec.canonical import spec_hash
from fedaudit.spec.errors import FieldError, InvalidInputError
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.privacy import LaplaceL2
from models.records import Budget, NewExperiment
from models.repositories import (
    EventRepository,
    ExperimentRepository,
    FederationRepository,
    OutboxRepository,
    SubjectSetRepository,
    UnitRepository,
)

if TYPE_CHECKING:
    from fedaudit.federations.federation import Federation

log = structlog.get_logger()

UNIT_TOPIC = "unit"
"""The outbox topic under which the sweeper looks for units to publish."""
_FIGURE = "leakage"
# Far below the largest number in double precision, so that sums of reservations stay finite.
_LARGEST_LEAKAGE = 1e300


@dataclass(frozen=True)
class Plan:
    """A spec that can be run, and what it would cost."""

    spec: ExperimentSpec
    federation: "Federation"
    parameters: int
    training_clients: int
    projection: Projection
    profile: dict[str, Any]


@dataclass(frozen=True)
class Wake:
    """What to tell the queue once the transaction is committed."""

    unit_id: str
    device: str
    message_id: str


def plan(resources: Resources, spec: ExperimentSpec) -> Plan:
    """Load the data and project the cost; no transaction. Raises InvalidInputError."""
    federation = resources.federations.load(spec)
    # Only now, as in the cache: this room brings pyarrow along.
    from fedaudit.federations.profile import profile
    from fedaudit.federations.split import validation_clients

    held_out = validation_clients(
        federation.clients, validation_fraction=spec.federation.validation_fraction
    )
    training_clients = federation.clients - held_out
    n = parameter_count(
        spec.model,
        features=len(federation.feature_names),
        classes=len(federation.classes),
    )
    projection = project_cost(spec, n=n, training_clients=training_clients)
    if (projection.leakage_worst_case or 0.0) > _LARGEST_LEAKAGE:
        message = "is so small that the leakage exceeds what can be counted; use a larger one"
        raise InvalidInputError([FieldError("/privacy/noise_multiplier", message)])
    return Plan(spec, federation, n, training_clients, projection, profile(federation))


def admit(
    session: Session,
    project_id: str,
    planned: Plan,
    *,
    experiment_id: str,
    max_attempts: int,
    retry_of: str | None = None,
) -> Wake:
    """Reserve the worst case and queue the experiment, in the caller's transaction.

    Raises ProblemError, to be followed by a roll-back, where the budget has no room.
    """
    spec, federation = planned.spec, planned.federation
    federation_id = _federation(session, project_id, planned)
    _reserve(session, project_id, planned, federation_id, experiment_id)
    unit = UnitRepository(session).create(project_id, spec.device, max_attempts=max_attempts)
    experiment = NewExperiment(
        id=experiment_id,
        name=spec.name,
        spec=spec.model_dump(mode="json"),
        spec_hash=spec_hash(spec),
        seed=spec.seed,
        mechanism=spec.privacy.mechanism,
        hypotheses=spec.training.hypotheses,
        noise=spec.privacy.noise,
        rounds_total=spec.training.rounds,
        federation_id=federation_id,
        subject_set_id=SubjectSetRepository(session).put(federation.client_names),
        unit_id=unit.id,
        parameters=planned.parameters,
        noise_multiplier=(
            spec.privacy.noise_multiplier if isinstance(spec.privacy, LaplaceL2) else None
        ),
        attributes={attribute.name: attribute.values for attribute in federation.attributes},
        tags=spec.tags,
        retry_of=retry_of,
    )
    ExperimentRepository(session, project_id).add(experiment)
    event = {"status": "queued", "status_reason": None}
    EventRepository(session).append(experiment_id, project_id, [("status.changed", event)])
    payload = {"unit_id": unit.id, "device": unit.device}
    message_id = OutboxRepository(session).add(project_id, UNIT_TOPIC, payload)
    return Wake(unit.id, unit.device, message_id)


def publish(resources: Resources, wake: Wake) -> None:
    """Tell the queue. Where it is away, the sweeper does so later from the outbox."""
    from infrastructure.queue import QueueUnavailableError

    try:
        resources.queue.publish_unit(wake.unit_id, wake.device)
        with resources.database.write() as session:
            OutboxRepository(session).mark_published([wake.message_id])
            UnitRepository(session).mark_published([wake.unit_id])
    except (QueueUnavailableError, SQLAlchemyError) as error:
        log.warning("left to the sweeper", unit_id=wake.unit_id, error=type(error).__name__)


def _federation(session: Session, project_id: str, planned: Plan) -> str:
    source = planned.spec.federation
    federation = FederationRepository(session, project_id).get_or_create(
        fingerprint=planned.federation.fingerprint,
        name=getattr(source, "path", source.source),
        source=source.source,
        profile=planned.profile,
    )
    return federation.id


def _reserve(
    session: Session, project_id: str, planned: Plan, federation_id: str, experiment_id: str
) -> None:
    amount, book = planned.projection.leakage_worst_case, planned.spec.privacy.noise
    federations = FederationRepository(session, project_id)
    if amount is not None and federations.reserve(
        federation_id, experiment_id=experiment_id, book=book, figure=_FIGURE, amount=amount
    ):
        return
    limited = [
        budget
        for budget in federations.budgets(federation_id)
        if (budget.book, budget.figure) == (book, _FIGURE) and budget.total is not None
    ]
    if amount is not None:
        raise _exhausted(limited[0], federation_id, amount)
    if limited:
        # Nothing bounds what an update without noise reveals, so no budget has room for one.
        raise _unbounded(limited[0], federation_id)


def _exhausted(budget: Budget, federation_id: str, amount: float) -> ProblemError:
    return ProblemError(
        409,
        "budget-exhausted",
        f"in the worst case the experiment costs a {budget.figure} of {amount:.6g}, and the "
        f"{budget.book} book of this federation has {budget.remaining:.6g} left; ask for fewer "
        "rounds or more noise, set privacy.client_budget, or raise the budget",
        federation_id=federation_id,
        book=budget.book,
        figure=budget.figure,
        requested=amount,
        remaining=budget.remaining,
        total=budget.total,
    )


def _unbounded(budget: Budget, federation_id: str) -> ProblemError:
    return ProblemError(
        409,
        "budget-exhausted",
        f"the {budget.book} book of this federation has a budget, and without a mechanism nothing "
        "bounds what the experiment reveals; give privacy.mechanism a mechanism, or remove the "
        "budget's total",
        federation_id=federation_id,
        book=budget.book,
        figure=budget.figure,
        requested=None,
        remaining=budget.remaining,
        total=budget.total,
    )
