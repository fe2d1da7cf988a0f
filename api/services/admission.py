"""Admission: whether a spec can be run and paid for, and its entry into the queue."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy.orm import Session

from api.problems import ProblemError
from api.resources import Resources
from api.services.reservation import reserve
from api.services.uploads import Uploads, ready_federation
from api.services.wake import Wake, queue_unit
from fedaudit.ledger.accounts import Account, account_of
from fedaudit.networks.shape import layer_sizes, network_shape
from fedaudit.privacy.mechanisms.registry import mechanism_of
from fedaudit.privacy.projection import Projection, project_cost
from fedaudit.spec.canonical import spec_hash
from fedaudit.spec.errors import FieldError, InvalidInputError
from fedaudit.spec.experiment import ExperimentSpec
from models.identifiers import new_id
from models.records import NewExperiment
from models.repositories import (
    EventRepository,
    ExperimentRepository,
    FederationRepository,
    SubjectSetRepository,
)

if TYPE_CHECKING:
    from fedaudit.federations.federation import Federation

# Far below the largest number in double precision, so that sums of reservations stay finite.
_LARGEST_COST = 1e300


@dataclass(frozen=True)
class Plan:
    """A spec that can be run, and what it would cost."""

    spec: ExperimentSpec
    federation: "Federation"
    parameters: int
    training_clients: int
    account: Account
    projection: Projection
    profile: dict[str, Any]


def plan(resources: Resources, project_id: str, spec: ExperimentSpec) -> Plan:
    """Load the data and project the cost; no transaction. Raises InvalidInputError."""
    uploads = Uploads(
        project_id,
        database=resources.database,
        storage=resources.storage,
        sources_dir=resources.settings.sources_dir,
    )
    federation = resources.federations.load(spec, uploads=uploads)
    # Only now, as in the cache: this room brings pyarrow along.
    from fedaudit.federations.profile import profile
    from fedaudit.federations.split import training_clients
    from fedaudit.training.spending import spending_of

    training = training_clients(federation.clients, spec.federation)
    shape = network_shape(
        spec.model,
        features=federation.width,
        classes=len(federation.classes),
    )
    n = shape.n
    account = account_of(
        spec,
        layers=layer_sizes(shape),
        client_names=federation.client_names,
        plan=spending_of(spec, federation),
    )
    projection = project_cost(spec, n=n, training_clients=training, plan=account.plan)
    costs = [projection.leakage_worst_case or 0.0]
    costs += [float(str(entry["value"])) for entry in projection.epsilon]
    if not max(costs) <= _LARGEST_COST:
        message = "is so small that the cost exceeds what can be counted; use a larger one"
        raise InvalidInputError([FieldError("/privacy/noise_multiplier", message)])
    return Plan(spec, federation, n, training, account, projection, profile(federation))


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

    Raises ProblemError, to be followed by a roll-back, where a budget has no room.
    """
    spec, federation, account = planned.spec, planned.federation, planned.account
    federation_id = _federation(session, project_id, planned)
    reserve(
        session,
        project_id,
        federation_id,
        experiment_id=experiment_id,
        mechanism=mechanism_of(spec),
        projection=planned.projection,
        plan=account.plan,
    )
    wake = queue_unit(
        session, project_id, kind="run", device=spec.device, max_attempts=max_attempts
    )
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
        subject_set_id=SubjectSetRepository(session).put(account.subjects),
        unit_id=wake.unit_id,
        parameters=planned.parameters,
        noise_multiplier=(
            account.inputs.noise_multiplier if account.inputs.cost_kind == "leakage" else None
        ),
        mechanism_inputs=None if account.inputs.follow_from_n else account.inputs.as_dict(),
        attributes={attribute.name: attribute.values for attribute in federation.attributes},
        tags=spec.tags,
        retry_of=retry_of,
    )
    ExperimentRepository(session, project_id).add(experiment)
    event = {"status": "queued", "status_reason": None}
    EventRepository(session).append(experiment_id, project_id, [("status.changed", event)])
    return wake


class _RolledBack(Exception):  # noqa: N818  # no error: it ends a transaction without a trace
    """Nothing of a trial is stored."""


def refusal(resources: Resources, project_id: str, planned: Plan) -> str | None:
    """Why the federation's budgets would refuse the plan just now; None where they have room.

    The reservation itself is tried, and rolled back, so that the answer is that of a submission.
    """
    try:
        with resources.database.write() as session:
            federation_id = _federation(session, project_id, planned)
            reserve(
                session,
                project_id,
                federation_id,
                experiment_id=new_id(),
                mechanism=mechanism_of(planned.spec),
                projection=planned.projection,
                plan=planned.account.plan,
            )
            raise _RolledBack
    except _RolledBack:
        return None
    except ProblemError as error:
        if error.slug != "budget-exhausted":
            raise
        return error.detail


def _federation(session: Session, project_id: str, planned: Plan) -> str:
    source = planned.spec.federation
    uploaded = getattr(source, "id", None)
    if uploaded is not None:
        # Locked: it is not deleted before the experiment is queued.
        return ready_federation(session, project_id, uploaded, lock=True).id
    federation = FederationRepository(session, project_id).get_or_create(
        fingerprint=planned.federation.fingerprint,
        name=getattr(source, "path", source.source),
        source=source.source,
        profile=planned.profile,
    )
    return federation.id
