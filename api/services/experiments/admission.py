"""Admission: whether a spec can be run, and whether the budgets of its data allow it."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from sqlalchemy.orm import Session

from api.http.problems import ProblemError
from api.services.budgets.reservation import reserve
from api.services.experiments.bound_data import load_for
from api.services.federations.disclosure_policies import refuse_below_floor, refuse_departures
from api.services.federations.simulated_noise import refuse_what_is_not_secret, warnings_of
from api.shared.data_faults import faults_for
from api.shared.federation_files import usable
from api.shared.load_pool import stop_if_given_up
from api.shared.resources import Resources
from api.shared.security import Caller
from fedaudit.attacks.feasibility import check_attacks
from fedaudit.federations.profiles.profile import beside_earlier, cuts_of
from fedaudit.runs.experiment_plan import ExperimentPlan, PlanLimits, plan_experiment
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.sources import FileSource
from fedaudit.training.base.cell import Cell
from infrastructure.storage import stored_artifact
from models.identifiers import is_id, new_id
from models.repositories import Budgets, DisclosureRepository, FederationRepository
from models.tables.federations import Federation
from models.values import BudgetsAcross


def plan(resources: Resources, caller: Caller, spec: ExperimentSpec) -> ExperimentPlan:
    """Load the data and project the cost; no transaction. Nothing below the service's floor of
    disclosure is loaded.

    Raises InvalidInputError, which quotes data to callers who may read them alone.
    """
    settings = resources.settings
    refuse_below_floor(settings, spec.fairness)
    limits = PlanLimits(
        model_bytes=settings.max_model_bytes,
        planned_records=settings.max_planned_records,
        data_bytes=settings.max_data_memory_bytes,
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
            federation_id = store_federation(session, project_id, planned, across=across)
            refuse_what_is_not_secret(session, project_id, federation_id, planned, across=across)
            refuse_departures(session, project_id, federation_id, planned.spec, across=across)
            noise = planned.spec.privacy.noise
            warnings = warnings_of(
                session,
                project_id,
                federation_id,
                noise=noise,
                cost_kind=planned.ledger_context.inputs.cost_kind,
                across=across,
            )
            if others:
                warnings.append(_EACH_SEED.format(seeds=1 + len(others)))
            budgets = Budgets(session, project_id, across=across).budgets(federation_id)
            is_bounded = any(one.book == noise and one.total is not None for one in budgets)
            for one in (planned, *others):
                reserve(
                    session,
                    project_id,
                    store_federation(session, project_id, one, across=across),
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


def store_federation(
    session: Session, project_id: str, planned: ExperimentPlan, *, across: BudgetsAcross
) -> str:
    """The id of the plan's federation, which is stored if it is new, and whose content is locked.

    So it is neither deleted nor erased before the experiment is queued. Raises InvalidInputError
    where the spec names one by an id that cannot be used.
    """
    source = planned.spec.federation
    budgets = Budgets(session, project_id, across=across)
    uploaded = getattr(source, "id", None)
    if uploaded is not None:
        return usable(budgets.hold(uploaded) if is_id(uploaded) else None).id
    fingerprint = planned.federation.fingerprint
    known = budgets.hold_data(fingerprint)
    if known is not None:
        if known.status == "erased":
            raise _erased(known)
        return known.id
    return (
        FederationRepository(session, project_id)
        .get_or_create(
            fingerprint=fingerprint,
            name=getattr(source, "path", source.source),
            source=source.source,
            profile=_first_profile(session, planned),
            made_up=source.traits.made_up,
        )
        .id
    )


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
