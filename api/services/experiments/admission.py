"""Admission: whether a spec can be run and its budget allows it, and its entry into the queue."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy.orm import Session

from api.http.problems import ProblemError
from api.services.base.dispatch import UnitMessage, queue_unit
from api.services.budgets.reservation import reserve
from api.services.experiments.bound_data import load_for
from api.services.federations.disclosure_policies import (
    refuse_below_floor,
    refuse_departures,
    stored_policy,
)
from api.services.federations.simulated_noise import refuse_what_is_not_secret, warnings_of
from api.shared.data_faults import faults_for
from api.shared.federation_files import ready_federation
from api.shared.load_pool import stop_if_given_up
from api.shared.resources import Resources
from api.shared.security import Caller
from fedaudit.federations.profiles.earlier_cuts import beside_earlier, cuts_of
from fedaudit.runs.experiment_plan import ExperimentPlan, plan_experiment
from fedaudit.runs.plan_limits import PlanLimits
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.sources import FileSource
from models.identifiers import new_id
from models.repositories import (
    DisclosureRepository,
    EventRepository,
    ExperimentRepository,
    FederationRepository,
    SubjectSetRepository,
)
from models.values import BudgetsAcross, NewExperiment


def plan(resources: Resources, caller: Caller, spec: ExperimentSpec) -> ExperimentPlan:
    """Load the data and project the cost; no transaction. Nothing below the service's floor of
    disclosure is loaded.

    Raises InvalidInputError, which quotes data to callers who may read them alone.
    """
    settings = resources.settings
    refuse_below_floor(settings, spec.fairness)
    limits = PlanLimits(
        model_bytes=settings.max_model_bytes, planned_records=settings.max_planned_records
    )
    with faults_for(caller, spec):
        federation = load_for(resources, caller, spec)
        stop_if_given_up()
        planned = plan_experiment(spec, federation, limits=limits)
    stop_if_given_up()
    return planned


def admit(
    session: Session,
    project_id: str,
    planned: ExperimentPlan,
    *,
    experiment_id: str,
    max_attempts: int,
    across: BudgetsAcross,
    retry_of: str | None = None,
) -> UnitMessage:
    """Reserve the worst case and queue the experiment, in the caller's transaction.

    `across`: whose spending on the content its budgets count.
    Raises ProblemError, to be followed by a roll-back, where a budget has no room, or the
    federation forbids simulation and the noise is not secret; InvalidInputError where the spec
    departs from the federation's disclosure policy.
    """
    unit_message = queue_unit(
        session, project_id, kind="run", device=planned.spec.device, max_attempts=max_attempts
    )
    admit_to_unit(
        session,
        project_id,
        planned,
        unit_id=unit_message.unit_id,
        experiment_id=experiment_id,
        across=across,
        retry_of=retry_of,
    )
    return unit_message


def admit_to_unit(
    session: Session,
    project_id: str,
    planned: ExperimentPlan,
    *,
    unit_id: str,
    unit_position: int = 0,
    experiment_id: str,
    across: BudgetsAcross = "service",
    retry_of: str | None = None,
) -> None:
    """Like `admit`, for a unit that is queued in the same transaction.

    `unit_position`: the experiment's place among those of the unit.
    """
    ledger_context = planned.ledger_context
    federation_id = store_federation(session, project_id, planned)
    refuse_what_is_not_secret(session, project_id, federation_id, planned, across=across)
    policy = refuse_departures(session, project_id, federation_id, planned.spec, across=across)
    reserve(
        session,
        project_id,
        federation_id,
        experiment_id=experiment_id,
        planned=planned,
        across=across,
    )
    experiment = NewExperiment(
        **planned.stored_fields(),
        id=experiment_id,
        federation_id=federation_id,
        subject_set_id=SubjectSetRepository(session).put(ledger_context.subjects),
        unit_id=unit_id,
        unit_position=unit_position,
        retry_of=retry_of,
        disclosure=stored_policy(policy),
    )
    ExperimentRepository(session, project_id).add(experiment)
    event = {"status": "queued", "status_reason": None}
    EventRepository(session).append(experiment_id, project_id, [("status.changed", event)])


class _RolledBack(Exception):  # noqa: N818  # no error: it ends a transaction without a trace
    """Nothing of a trial is stored."""


@dataclass(frozen=True)
class Trial:
    """What a submission of the plan would meet at present."""

    refusal: str | None
    """Why the federation's budgets would refuse it; None where they have room."""
    warnings: list[str]


def try_admission(resources: Resources, project_id: str, planned: ExperimentPlan) -> Trial:
    """Try the reservation itself, and roll it back, so that the answer is that of a submission.

    Raises ProblemError or InvalidInputError where the plan would be refused for another reason than
    a budget.
    """
    warnings: list[str] = []
    across = resources.settings.budgets_across
    try:
        with resources.database.write() as session:
            federation_id = store_federation(session, project_id, planned)
            refuse_what_is_not_secret(session, project_id, federation_id, planned, across=across)
            refuse_departures(session, project_id, federation_id, planned.spec, across=across)
            noise = planned.spec.privacy.noise
            warnings = warnings_of(session, project_id, federation_id, noise=noise, across=across)
            reserve(
                session,
                project_id,
                federation_id,
                experiment_id=new_id(),
                planned=planned,
                across=across,
            )
            raise _RolledBack
    except _RolledBack:
        return Trial(None, warnings)
    except ProblemError as error:
        if error.slug != "budget-exhausted":
            raise
        return Trial(error.detail, warnings)


def store_federation(session: Session, project_id: str, planned: ExperimentPlan) -> str:
    """The id of the plan's federation, which is stored if it is new.

    Raises InvalidInputError where the spec names one by an id that cannot be used.
    """
    source = planned.spec.federation
    uploaded = getattr(source, "id", None)
    if uploaded is not None:
        # Locked, so that it is not deleted before the experiment is queued.
        return ready_federation(session, project_id, uploaded, lock=True).id
    fingerprint = planned.federation.fingerprint
    federations = FederationRepository(session, project_id)
    known = federations.find(fingerprint)
    if known is not None:
        return known.id
    return federations.get_or_create(
        fingerprint=fingerprint,
        name=getattr(source, "path", source.source),
        source=source.source,
        profile=_first_profile(session, planned),
        made_up=source.traits.made_up,
    ).id


def _first_profile(session: Session, planned: ExperimentPlan) -> dict[str, Any]:
    """The profile of data that this project has not used before, as another may have."""
    spec, fingerprint = planned.spec, planned.federation.fingerprint
    if not isinstance(spec.federation, FileSource):
        return planned.profile
    # The profile judges by the default rule, whatever the spec's is.
    judged = spec.fairness.model_copy(update={"favourable": None})
    disclosed = DisclosureRepository(session)
    shown, cuts = beside_earlier(
        planned.profile, cuts_of(planned.profile, judged), disclosed.profile_cuts(fingerprint)
    )
    disclosed.set_profile_cuts(fingerprint, cuts)
    return shown
