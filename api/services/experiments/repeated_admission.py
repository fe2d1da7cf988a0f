"""Admission of a spec with several seeds: one experiment a seed, in one unit, reserved together."""

from collections.abc import Sequence

from api.services.admission import plan
from api.services.dispatch import UnitMessage
from api.services.submission import Admitting
from api.shared.resources import Resources
from api.shared.security import Caller
from fedaudit.runs.experiment_plan import ExperimentPlan
from fedaudit.sweeps.report_section import repeated
from fedaudit.sweeps.sweep_costs import sweep_facts
from models.identifiers import new_id
from models.person import Actor
from models.repositories import SweepRepository
from models.tables.experiments import Experiment


def plan_others(
    resources: Resources, caller: Caller, planned: ExperimentPlan
) -> list[ExperimentPlan]:
    """The other seeds of a spec; none where it is not repeated. Raises InvalidInputError."""
    return [plan(resources, caller, spec) for spec in repeated(planned.spec)[1:]]


def admit_repeated(
    admitting: Admitting,
    planned: ExperimentPlan,
    others: Sequence[ExperimentPlan],
    *,
    experiment_id: str,
    by: Actor,
    retry_of: str | None = None,
) -> tuple[UnitMessage, Experiment]:
    """Queue the experiment and one for each other seed, in the caller's transaction.

    They are cells of a sweep of their own, which says what they cost together. The experiment comes
    last in the unit: its report speaks of the others. Raises ProblemError, to be followed by a
    roll-back, where a budget has no room for all of them.
    """
    # Neither joined nor taken apart: the report of one speaks of the others.
    unit_message = admitting.queue(planned, alone=True)
    ids = [experiment_id, *(new_id() for _ in others)]
    plans = [planned, *others]
    queued = [
        admitting.admit(
            one,
            unit_message,
            experiment_id=id_,
            unit_position=(place - 1) % len(plans),
            retry_of=retry_of if place == 0 else None,
        )
        for place, (id_, one) in enumerate(zip(ids, plans, strict=True))
    ]
    SweepRepository(admitting.session, admitting.project_id).add(
        new_id(),
        name=planned.spec.name,
        asked={
            "name": planned.spec.name,
            "base": planned.spec.model_dump(mode="json", exclude={"repeats"}),
            "repeats": planned.spec.repeats,
        },
        facts=sweep_facts([(one.spec, one.ledger_context) for one in plans]),
        cells=[(id_, {"seed": one.spec.seed}) for id_, one in zip(ids, plans, strict=True)],
        by=by,
    )
    return unit_message, queued[0]
