"""Admission: whether a spec can be run and its budget allows it, and its entry into the queue."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from sqlalchemy.orm import Session

from api.http.problems import ProblemError
from api.services.artifacts.artifact_store import hold_start
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
from fedaudit.attacks.feasibility import check_attacks
from fedaudit.federations.profiles.earlier_cuts import beside_earlier, cuts_of
from fedaudit.ledger.composition import composed_epsilon
from fedaudit.runs.experiment_plan import ExperimentPlan, plan_experiment
from fedaudit.runs.plan_limits import PlanLimits
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.sources import FileSource
from fedaudit.training.base.cell import Cell
from fedaudit.training.stack_key import cells_at_once, stack_digest
from infrastructure.storage import stored_artifact
from models.identifiers import new_id
from models.person import Actor
from models.repositories import (
    DisclosureRepository,
    EventRepository,
    ExperimentRepository,
    FederationRepository,
    LowBudgetRepository,
    SubjectSetRepository,
)
from models.repositories.webhooks.low_budgets import LOW_SHARE
from models.tables.federations import Federation
from models.values import BudgetsAcross, NewExperiment, StackPlace


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
        planned = plan_experiment(
            spec,
            federation,
            limits=limits,
            open_artifact=partial(stored_artifact, resources.storage, caller.project_id),
        )
        check_attacks(Cell(spec, federation))
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
    low_share: float,
    retry_of: str | None = None,
    created_by: Actor | None = None,
) -> UnitMessage:
    """Reserve the worst case and queue the experiment, in the caller's transaction.

    `across`: whose spending on the content its budgets count. `low_share`: of a total; whoever
    listens is told when less remains.
    Raises ProblemError, to be followed by a roll-back, where a budget has no room, or the
    federation forbids simulation and the noise is not secret; InvalidInputError where the spec
    departs from the federation's disclosure policy.
    """
    unit_message = queue_unit(
        session,
        project_id,
        kind="run",
        device=planned.spec.device,
        max_attempts=max_attempts,
        # Taken apart after a failed attempt, so there must be another one.
        stack=stack_place(planned) if max_attempts > 1 else None,
    )
    admit_to_unit(
        session,
        project_id,
        planned,
        unit_id=unit_message.unit_id,
        experiment_id=experiment_id,
        across=across,
        low_share=low_share,
        retry_of=retry_of,
        created_by=created_by,
    )
    return unit_message


def stack_place(planned: ExperimentPlan) -> StackPlace | None:
    """With which others it can be trained; None where it gains nothing from them."""
    cell = Cell(planned.spec, planned.federation)
    key = stack_digest(cell)
    if key is None:
        return None
    return StackPlace(key, cells_at_once(cell))


def admit_to_unit(
    session: Session,
    project_id: str,
    planned: ExperimentPlan,
    *,
    unit_id: str,
    unit_position: int = 0,
    experiment_id: str,
    across: BudgetsAcross = "service",
    low_share: float = LOW_SHARE,
    retry_of: str | None = None,
    created_by: Actor | None = None,
) -> None:
    """Like `admit`, for a unit that is queued in the same transaction.

    `unit_position`: the experiment's place among those of the unit.
    """
    ledger_context = planned.ledger_context
    federation_id = store_federation(session, project_id, planned)
    hold_start(session, project_id, planned.spec)
    refuse_what_is_not_secret(session, project_id, federation_id, planned, across=across)
    policy = refuse_departures(session, project_id, federation_id, planned.spec, across=across)
    budgets = LowBudgetRepository(session, project_id, across=across)
    with budgets.told(federation_id, price=composed_epsilon, share=low_share):
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
        created_by=None if created_by is None else created_by.as_dict(),
        disclosure=stored_policy(policy),
    )
    ExperimentRepository(session, project_id).add(experiment)
    event = {"status": "queued", "status_reason": None}
    EventRepository(session).append(experiment_id, project_id, [("status.changed", event)])


_EACH_SEED = (
    "{seeds} seeds are asked for: each is a run of its own that costs what the projection says, "
    "and budgets must have room for all of them"
)


class RolledBack(Exception):  # noqa: N818  # no error: it ends a transaction without a trace
    """Nothing of a trial is stored."""


@dataclass(frozen=True)
class Trial:
    """What a submission of the plan would meet at present."""

    refusal: str | None
    """Why the federation's budgets would refuse it; None where they have room, or none is set."""
    warnings: list[str]
    is_bounded: bool
    """Whether a total is set in the book of its noise mode."""


def try_admission(
    resources: Resources,
    project_id: str,
    planned: ExperimentPlan,
    others: Sequence[ExperimentPlan] = (),
) -> Trial:
    """Try the reservation itself, and roll it back, so that the answer is that of a submission.

    `others`: the plans of its other seeds. Raises ProblemError or InvalidInputError where the plan
    would be refused for another reason than a budget.
    """
    warnings: list[str] = []
    is_bounded = False
    across = resources.settings.budgets_across
    try:
        with resources.database.write() as session:
            federation_id = store_federation(session, project_id, planned)
            refuse_what_is_not_secret(session, project_id, federation_id, planned, across=across)
            refuse_departures(session, project_id, federation_id, planned.spec, across=across)
            noise = planned.spec.privacy.noise
            warnings = warnings_of(session, project_id, federation_id, noise=noise, across=across)
            if others:
                warnings.append(_EACH_SEED.format(seeds=1 + len(others)))
            budgets = FederationRepository(session, project_id, across=across).budgets(
                federation_id
            )
            is_bounded = any(one.book == noise and one.total is not None for one in budgets)
            for one in (planned, *others):
                reserve(
                    session,
                    project_id,
                    store_federation(session, project_id, one),
                    experiment_id=new_id(),
                    planned=one,
                    across=across,
                )
            raise RolledBack
    except RolledBack:
        return Trial(None, warnings, is_bounded)
    except ProblemError as error:
        if error.slug != "budget-exhausted":
            raise
        return Trial(error.detail, warnings, is_bounded)


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
        # Locked, so that it is not erased before the experiment is queued.
        locked = federations.lock(known.id)
        if locked is not None and locked.status == "erased":
            raise _erased(locked)
        return known.id
    return federations.get_or_create(
        fingerprint=fingerprint,
        name=getattr(source, "path", source.source),
        source=source.source,
        profile=_first_profile(session, planned),
        made_up=source.traits.made_up,
    ).id


def _erased(federation: Federation) -> ProblemError:
    return ProblemError(
        409,
        "conflict",
        "these data were erased from this project; whoever may use them again registers them anew "
        "(POST /v1/federations), and finds what was spent on them",
        federation_id=federation.id,
    )


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
