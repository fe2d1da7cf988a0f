"""Submissions on the same data that come at once: one transaction for all of them.

It locks the data's content, reads its budgets and lengthens the audit log once. Where any of them
is refused nothing of it is stored, and each is tried by itself.
"""

from collections.abc import Sequence
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import structlog
from sqlalchemy.orm import Session

from api.services.base.dispatch import UnitMessage
from api.services.base.idempotency import IdempotentRequest
from api.services.experiments.admission import plan
from api.services.experiments.admitting import Admitting, admitting_for
from api.services.experiments.inherited_spec import parse_inherited
from api.services.experiments.submission import Submitted, earlier, queue_alone, warnings_about
from api.services.quotas.project_quotas import refuse_over_running
from api.shared.load_pool import MAX_WAITING_OF_A_PROJECT, crowded
from api.shared.resources import Resources
from api.shared.security import Caller
from fedaudit.privacy.accounting.mechanism_parameters import CostKind
from fedaudit.runs.experiment_plan import ExperimentPlan
from fedaudit.spec.model.starts import ArtifactStart
from models.identifiers import new_id
from models.repositories import AuditLogRepository
from models.repositories.audit_log import Deed
from models.tables.experiments import Experiment

log = structlog.get_logger()


@dataclass(frozen=True, eq=False)
class Asked:
    """An experiment that was planned and is to be queued."""

    caller: Caller
    planned: ExperimentPlan
    idempotency: IdempotentRequest | None
    experiment_id: str = field(default_factory=new_id)
    context: Context = field(default_factory=copy_context)
    """Of the request: what its lines of the log and its trace are named by."""


def prepared(
    resources: Resources, caller: Caller, value: Any, idempotency: IdempotentRequest | None
) -> Submitted | Asked:
    """What the same request came to before, or what is left to queue of the one that a JSON value
    asks for. Raises InvalidInputError, ProblemError."""
    before = earlier(resources, caller, idempotency)
    if before is not None:
        return before
    planned = plan(resources, caller, parse_inherited(resources, caller, value))
    if planned.spec.repeats > 1 or isinstance(planned.spec.model.start, ArtifactStart):
        # Of a size, or with locks, of its own.
        return queue_alone(resources, caller, planned, idempotency)
    return Asked(caller, planned, idempotency)


async def queue_with_others(resources: Resources, asked: Asked) -> Submitted:
    """Queue an experiment, together with those on the same data that wait at the same time.

    Raises ProblemError or InvalidInputError where it is refused.
    """
    # Of one content, so that two groups never lock two contents in different orders.
    same = ("submit", asked.caller.project_id, asked.planned.federation.fingerprint)
    if resources.groups.waiting(same) > MAX_WAITING_OF_A_PROJECT:
        raise crowded(MAX_WAITING_OF_A_PROJECT)
    return await resources.groups.run(same, asked, partial(queue_all, resources))


def queue_all(resources: Resources, asked: Sequence[Asked]) -> list[Submitted | Exception]:
    """What became of each, in their order."""
    together: dict[str, Submitted] = {}
    if len(asked) > 1:
        try:
            together = _queue_together(resources, asked)
        except Exception as error:  # of one of them, who meets it again alone
            log.debug("queued one by one", submissions=len(asked), error=type(error).__name__)
    return [together.get(one.experiment_id) or _by_itself(resources, one) for one in asked]


def _by_itself(resources: Resources, one: Asked) -> Submitted | Exception:
    try:
        return one.context.run(
            queue_alone,
            resources,
            one.caller,
            one.planned,
            one.idempotency,
            experiment_id=one.experiment_id,
        )
    except Exception as error:  # raised again where it is waited for
        return error


def _queue_together(resources: Resources, asked: Sequence[Asked]) -> dict[str, Submitted]:
    """By id, those whose idempotency keys were not taken."""
    project_id = asked[0].caller.project_id
    with resources.database.write() as session:
        mine = _claimed(session, asked)
        with admitting_for(resources, session, asked[0].caller) as admitting:
            queued = {one.experiment_id: one.context.run(_admit, admitting, one) for one in mine}
        warnings: dict[tuple[str, str, CostKind], list[str]] = {}
        for one in mine:
            experiment, kind = queued[one.experiment_id][0], _cost_kind(one)
            about = (experiment.federation_id, experiment.noise, kind)
            if about not in warnings:
                warnings[about] = warnings_about(resources, session, project_id, experiment, kind)
        AuditLogRepository(session, project_id).enter_all(
            [_deed(one, queued[one.experiment_id][0]) for one in mine]
        )
        refuse_over_running(session, project_id, resources.settings)
    found = {}
    for one in mine:
        experiment, unit = queued[one.experiment_id]
        one.context.run(
            log.info, "experiment queued", experiment_id=experiment.id, unit_id=unit.unit_id
        )
        told = warnings[experiment.federation_id, experiment.noise, _cost_kind(one)]
        tags = sorted(set(one.planned.spec.tags))
        found[experiment.id] = Submitted(experiment, tags, unit, list(told))
    return found


def _cost_kind(one: Asked) -> CostKind:
    return one.planned.ledger_context.inputs.cost_kind


def _claimed(session: Session, asked: Sequence[Asked]) -> list[Asked]:
    """Those whose keys are theirs from now on, or that have none.

    Keys are taken, and clients' names locked afterwards, in the same order by everybody: nobody
    waits in a circle.
    """
    by_key = sorted(asked, key=lambda one: one.idempotency.key if one.idempotency else "")
    mine = [
        one
        for one in by_key
        if one.idempotency is None or one.idempotency.claim(session, one.caller, one.experiment_id)
    ]
    return sorted(mine, key=lambda one: one.planned.ledger_context.subjects)


def _admit(admitting: Admitting, one: Asked) -> tuple[Experiment, UnitMessage]:
    unit = admitting.queue(one.planned)
    experiment = admitting.admit(
        one.planned, unit, experiment_id=one.experiment_id, created_by=one.caller.actor
    )
    return experiment, unit


def _deed(one: Asked, queued: Experiment) -> Deed:
    return Deed(
        "experiment.submitted",
        queued.id,
        by=one.caller.actor,
        details={
            "federation_id": queued.federation_id,
            "noise": queued.noise,
            "retry_of": None,
            "spec_hash": queued.spec_hash,
        },
    )
