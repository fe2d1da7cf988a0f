"""Submit, retry and cancel experiments; a repeated request submits nothing twice."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import structlog
from sqlalchemy.orm import Session

from api.http.problems import ProblemError
from api.services.admission import parse_inherited, plan, store_federation
from api.services.artifacts import hold_start
from api.services.budgets.reservation import reserve
from api.services.disclosure import (
    refuse_departures,
    refuse_what_is_not_secret,
    stored_policy,
    warnings_of,
)
from api.services.dispatch import IdempotentRequest, UnitMessage, queue_unit
from api.services.lookups import find_experiment
from api.shared.concurrency import MAX_WAITING_OF_A_PROJECT, crowded
from api.shared.quotas import refuse_over_running
from api.shared.resources import Resources
from api.shared.security import Caller
from fedaudit.ledger.chain import new_salt
from fedaudit.ledger.composition import composed_epsilon
from fedaudit.privacy.accounting.mechanism_parameters import CostKind
from fedaudit.privacy.leakage import leakage
from fedaudit.privacy.mechanisms.registry import mechanism_of
from fedaudit.runs.experiment_plan import ExperimentPlan
from fedaudit.spec.model.starts import ArtifactStart
from fedaudit.spec.parse import parse_spec
from fedaudit.sweeps.repeats import repeated
from fedaudit.sweeps.sweep_facts import sweep_facts
from fedaudit.training.base.cell import Cell
from fedaudit.training.stack_key import cells_at_once, stack_digest
from models.identifiers import new_id
from models.person import Actor
from models.repositories import (
    AuditLogRepository,
    ExperimentRepository,
    LowBudgetRepository,
    SubjectSetRepository,
    SweepRepository,
    gathered_writes,
)
from models.repositories.audit_log.audit_entries import Deed
from models.repositories.experiments import ENDED
from models.repositories.webhooks.low_budgets import LOW_SHARE
from models.tables.experiments import Experiment
from models.values import BudgetsAcross, NewExperiment, StackPlace


@dataclass
class Admitting:
    """Admits experiments in the caller's transaction.

    What they have in common is looked at once: the content is locked and its budgets are read by
    the first of them. Rows are stored when all are admitted, many at a time.
    """

    session: Session
    project_id: str
    max_attempts: int
    across: BudgetsAcross
    """Whose spending on a content its budgets count."""
    low_share: float
    """Of a total; whoever listens is told when less remains."""
    created_by: Actor | None
    _told: ExitStack
    _federations: set[str] = field(default_factory=set)
    _subject_sets: dict[tuple[str, ...], str] = field(default_factory=dict)

    def queue(self, planned: ExperimentPlan, *, alone: bool = False) -> UnitMessage:
        """A unit for an experiment, or for several that are kept together (`alone`)."""
        # Taken apart after a failed attempt, so there must be another one.
        joins = self.max_attempts > 1 and not alone
        return queue_unit(
            self.session,
            self.project_id,
            kind="run",
            device=planned.spec.device,
            max_attempts=self.max_attempts,
            stack=stack_place(planned) if joins else None,
        )

    def admit(
        self,
        planned: ExperimentPlan,
        unit: UnitMessage,
        *,
        experiment_id: str,
        unit_position: int = 0,
        retry_of: str | None = None,
        created_by: Actor | None = None,
    ) -> Experiment:
        """Reserve the worst case and queue the experiment in the unit.

        `unit_position`: its place among those of the unit. `created_by`: where others submit at
        once.
        Raises ProblemError, to be followed by a roll-back, where a budget has no room, or the
        federation forbids simulation and the noise is not secret; InvalidInputError where the spec
        departs from the federation's disclosure policy.
        """
        session, project_id, across = self.session, self.project_id, self.across
        creator = created_by or self.created_by
        federation_id = store_federation(session, project_id, planned, across=across)
        hold_start(session, project_id, planned.spec)
        refuse_what_is_not_secret(session, project_id, federation_id, planned, across=across)
        policy = refuse_departures(session, project_id, federation_id, planned.spec, across=across)
        self._watch(federation_id)
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
            subject_set_id=self._subject_set(planned.ledger_context.subjects),
            unit_id=unit.unit_id,
            unit_position=unit_position,
            retry_of=retry_of,
            created_by=None if creator is None else creator.as_dict(),
            disclosure=stored_policy(policy),
            ledger_salt=new_salt(planned.spec.privacy.noise),
        )
        return ExperimentRepository(session, project_id).add(experiment, announced=True)

    def _watch(self, federation_id: str) -> None:
        """Whoever listens is told at the end which budgets on this content run low."""
        if federation_id in self._federations:
            return
        self._federations.add(federation_id)
        budgets = LowBudgetRepository(self.session, self.project_id, across=self.across)
        told = budgets.told(federation_id, price=composed_epsilon, share=self.low_share)
        self._told.enter_context(told)

    def _subject_set(self, subjects: Sequence[str]) -> str:
        names = tuple(subjects)
        if names not in self._subject_sets:
            self._subject_sets[names] = SubjectSetRepository(self.session).put(names)
        return self._subject_sets[names]


@contextmanager
def admitting(
    session: Session,
    project_id: str,
    *,
    max_attempts: int,
    across: BudgetsAcross = "service",
    low_share: float = LOW_SHARE,
    created_by: Actor | None = None,
) -> Iterator[Admitting]:
    """Admits in a write transaction; what was admitted is stored when the block ends.

    Budgets may not be set meanwhile: they would be read without what is not stored yet.
    """
    with gathered_writes(session), ExitStack() as told:
        yield Admitting(session, project_id, max_attempts, across, low_share, created_by, told)


def admitting_for(
    resources: Resources, session: Session, caller: Caller
) -> AbstractContextManager[Admitting]:
    """The same as the service is set, for a caller."""
    settings = resources.settings
    return admitting(
        session,
        caller.project_id,
        max_attempts=settings.max_attempts,
        across=settings.budgets_across,
        low_share=settings.webhooks_low_budget_share,
        created_by=caller.actor,
    )


def stack_place(planned: ExperimentPlan) -> StackPlace | None:
    """With which others it can be trained; None where it gains nothing from them."""
    cell = Cell(planned.spec, planned.federation)
    key = stack_digest(cell)
    if key is None:
        return None
    return StackPlace(key, cells_at_once(cell))


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
    with resources.database.glance() as session:
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
