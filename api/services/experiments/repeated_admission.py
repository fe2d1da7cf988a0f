"""Admission of a spec with several seeds: one experiment a seed, in one unit, reserved together."""

from collections.abc import Sequence

from sqlalchemy.orm import Session

from api.services.base.dispatch import UnitMessage, queue_unit
from api.services.experiments.admission import admit_to_unit, plan
from api.shared.resources import Resources
from api.shared.security import Caller
from fedaudit.runs.experiment_plan import ExperimentPlan
from fedaudit.sweeps.repeats import repeated
from fedaudit.sweeps.sweep_facts import sweep_facts
from models.identifiers import new_id
from models.repositories import SweepRepository


def plan_others(
    resources: Resources, caller: Caller, planned: ExperimentPlan
) -> list[ExperimentPlan]:
    """The other seeds of a spec; none where it is not repeated. Raises InvalidInputError."""
    return [plan(resources, caller, spec) for spec in repeated(planned.spec)[1:]]


def admit_repeated(
    resources: Resources,
    session: Session,
    caller: Caller,
    planned: ExperimentPlan,
    others: Sequence[ExperimentPlan],
    *,
    experiment_id: str,
    retry_of: str | None = None,
) -> UnitMessage:
    """Queue the experiment and one for each other seed, in the caller's transaction.

    They are cells of a sweep of their own, which says what they cost together. The experiment comes
    last in the unit: its report speaks of the others. Raises ProblemError, to be followed by a
    roll-back, where a budget has no room for all of them.
    """
    settings = resources.settings
    unit_message = queue_unit(
        session,
        caller.project_id,
        kind="run",
        device=planned.spec.device,
        max_attempts=settings.max_attempts,
        # Neither joined nor taken apart: the report of one speaks of the others.
        stack=None,
    )
    ids = [experiment_id, *(new_id() for _ in others)]
    plans = [planned, *others]
    for place, (id_, one) in enumerate(zip(ids, plans, strict=True)):
        admit_to_unit(
            session,
            caller.project_id,
            one,
            unit_id=unit_message.unit_id,
            unit_position=(place - 1) % len(plans),
            experiment_id=id_,
            across=settings.budgets_across,
            low_share=settings.webhooks_low_budget_share,
            retry_of=retry_of if place == 0 else None,
            created_by=caller.actor,
        )
    SweepRepository(session, caller.project_id).add(
        new_id(),
        name=planned.spec.name,
        asked={
            "name": planned.spec.name,
            "base": planned.spec.model_dump(mode="json", exclude={"repeats"}),
            "repeats": planned.spec.repeats,
        },
        facts=sweep_facts([(one.spec, one.ledger_context) for one in plans]),
        cells=[(id_, {"seed": one.spec.seed}) for id_, one in zip(ids, plans, strict=True)],
        by=caller.actor,
    )
    return unit_message
