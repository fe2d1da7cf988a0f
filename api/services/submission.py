"""Submit, retry and cancel experiments; a repeated request submits nothing twice."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import structlog
from sqlalchemy.orm import Session

from api.http.problems import ProblemError, conflict
from api.services.admission import hold_start, parse_inherited, plan, store_federation
from api.services.budgets import reserve
from api.services.disclosure import (
    refuse_departures,
    refuse_what_is_not_secret,
    stored_policy,
    warnings_of,
)
from api.services.dispatch import IdempotentRequest, Queued
from api.services.lookups import find_experiment, note
from api.shared.security import Call, refuse_over_running
from fedaudit.ledger.encoding import new_salt
from fedaudit.privacy.accounting.privacy_events import CostKind
from fedaudit.privacy.mechanisms.registry import mechanism_of
from fedaudit.runs.experiment_plan import ExperimentPlan
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.parse import parse_admitted, parse_spec
from fedaudit.spec.privacy import GaussianCentral
from fedaudit.sweeps.report_section import repeated
from fedaudit.sweeps.sweep_costs import sweep_facts
from fedaudit.training.base.cell import Cell, cells_at_once, stack_digest
from models.person import Actor
from models.repositories import (
    Budgets,
    ExperimentRepository,
    SubjectSetRepository,
    SweepRepository,
    UnitRepository,
    gathered_writes,
)
from models.repositories.webhooks import announcing_low
from models.tables.experiments import Experiment, Unit
from models.values import ENDED, AuditAction, new_id

log = structlog.get_logger()

RETRIED = ("failed", "cancelled")
_FIXED_COHORT = (
    "the bound of a cohort of fixed size is often several times that of coins (`cohort: {sampling: "
    "poisson, rate: ...}`) or of blocks (`{sampling: allocation, every: ...}`) with the same noise "
    "on as many clients; their epsilon is for other neighbours"
)


@dataclass
class Admitting:
    """Admits experiments in the caller's transaction. What they share is read once: the first of
    them locks the content and reads its budgets. Rows are stored when all are admitted, many at a
    time."""

    budgets: Budgets
    max_attempts: int
    by: Actor
    _notices: ExitStack
    _federations: set[str] = field(default_factory=set)
    _subject_sets: dict[tuple[str, ...], str] = field(default_factory=dict)

    def hold(self, plans: Iterable[ExperimentPlan]) -> None:
        """Lock all contents of a sweep before its first cell is admitted, by their fingerprints:
        two sweeps over the same contents could otherwise wait for each other."""
        by_content = {one.federation.fingerprint: one for one in plans}
        for fingerprint in sorted(by_content):
            store_federation(self.budgets, by_content[fingerprint])

    def queue(self, planned: ExperimentPlan, *, alone: bool = False) -> Unit:
        """A unit for an experiment, or for several that are kept together (`alone`)."""
        key, size = None, 1
        # A stack is taken apart after a failed attempt, so there must be another attempt.
        if self.max_attempts > 1 and not alone:
            cell = Cell(planned.spec, planned.federation)
            key = stack_digest(cell)
            # None where it gains nothing from others.
            size = 1 if key is None else cells_at_once(cell)
        return UnitRepository(self.budgets.session).create(
            self.budgets.project_id,
            planned.spec.device,
            max_attempts=self.max_attempts,
            stack_key=key,
            stack_size=size,
        )

    def admit(
        self,
        planned: ExperimentPlan,
        unit: Unit,
        *,
        experiment_id: str,
        unit_position: int = 0,
        retry_of: str | None = None,
    ) -> Experiment:
        """Reserve the worst case and queue the experiment in the unit. `unit_position`: its place
        among those of the unit. Raises ProblemError, to be followed by a roll-back, where a budget
        has no room, or the federation forbids simulation and the noise is not secret;
        InvalidInputError where the spec departs from its disclosure policy."""
        budgets, session = self.budgets, self.budgets.session
        federation_id = store_federation(budgets, planned)
        hold_start(session, budgets.project_id, planned.spec)
        refuse_what_is_not_secret(budgets, federation_id, planned.spec)
        policy = refuse_departures(budgets, federation_id, planned.spec)
        if federation_id not in self._federations:
            # Listeners are notified at the end which budgets on this content run low.
            self._federations.add(federation_id)
            self._notices.enter_context(announcing_low(budgets, federation_id))
        reserve(budgets, federation_id, experiment_id=experiment_id, planned=planned)
        names = tuple(planned.ledger_context.subjects)
        if names not in self._subject_sets:
            self._subject_sets[names] = SubjectSetRepository(session).put(names)
        return ExperimentRepository(session, budgets.project_id).add(
            **planned.stored_fields(),
            id=experiment_id,
            federation_id=federation_id,
            subject_set_id=self._subject_sets[names],
            unit_id=unit.id,
            unit_position=unit_position,
            retry_of=retry_of,
            created_by=vars(self.by),
            disclosure=stored_policy(policy),
            ledger_salt=new_salt(planned.spec.privacy.noise),
        )


@contextmanager
def admitting(session: Session, call: Call) -> Iterator[Admitting]:
    """Admits in a write transaction; what was admitted is stored when the block ends. Budgets may
    not be set meanwhile: they would be read without what is not stored yet."""
    attempts = call.resources.settings.max_attempts
    with gathered_writes(session), ExitStack() as notices:
        yield Admitting(call.budgets(session), attempts, call.caller.actor, notices)


def plan_seeds(call: Call, spec: ExperimentSpec) -> list[ExperimentPlan]:
    """The plan of a spec, and those of its other seeds where it is repeated. Raises
    InvalidInputError."""
    planned = plan(call, spec)
    return [planned, *(plan(call, other) for other in repeated(planned.spec)[1:])]


Submitted = Queued[Experiment]


def submit(call: Call, value: Any, idempotency: IdempotentRequest) -> Submitted:
    """Queue the experiment that a JSON value asks for. Raises InvalidInputError, ProblemError."""
    if before := _earlier(call, idempotency):
        return before
    return _queue(call, plan_seeds(call, parse_inherited(call, value)), idempotency)


def retry(call: Call, experiment: Experiment, idempotency: IdempotentRequest) -> Submitted:
    """Queue the spec of an experiment that failed or was cancelled once more."""
    if experiment.status not in RETRIED:
        raise conflict(
            f"the experiment is {experiment.status}; only one that failed or was cancelled can be "
            "tried again"
        )
    if before := _earlier(call, idempotency):
        return before
    with call.reading() as session:
        place = SweepRepository(session, call.project_id).places([experiment.id]).get(experiment.id)
    if place is not None:
        sweep_id = place.sweep_id
        raise conflict(
            f"the experiment is a cell of the sweep {sweep_id}, whose costs count every try; try "
            f"its cells again by POST /v1/sweeps/{sweep_id}/retry",
            sweep_id=sweep_id,
        )
    plans = plan_seeds(call, parse_spec(experiment.spec))
    return _queue(call, plans, idempotency, retry_of=experiment.id)


def cancel(call: Call, experiment_id: str) -> Experiment:
    """Request an end: `cancelled` at once where no worker has it, else `cancelling` until then.
    Raises ProblemError where it has ended otherwise."""
    with call.writing() as session:
        row = find_experiment(session, call.caller, experiment_id)
        if row.status in ENDED and row.status != "cancelled":
            raise conflict(f"the experiment has ended: it is {row.status}")
        ExperimentRepository(session, call.project_id).request_cancel(
            row.id, cancelled_by=call.caller.actor
        )
        note(session, call.caller, "experiment.cancelled", row.id)
        return find_experiment(session, call.caller, experiment_id)


def _earlier(call: Call, idempotency: IdempotentRequest) -> Submitted | None:
    """The result of the same request made before. Raises ProblemError where its body differed."""
    found = idempotency.before(call, find_experiment)
    if found is None:
        return None
    with call.reading() as session:
        return _submitted_before(call.budgets(session), found.row)


def _submitted_before(budgets: Budgets, experiment: Experiment) -> Submitted:
    kind = mechanism_of(parse_admitted(experiment.spec)).cost_kind
    return Submitted(experiment, warnings=_warnings(budgets, experiment, kind))


def _warnings(budgets: Budgets, experiment: Experiment, cost_kind: CostKind) -> list[str]:
    federation_id, noise = experiment.federation_id, experiment.noise
    return warnings_of(budgets, federation_id, noise=noise, cost_kind=cost_kind)


@contextmanager
def dry_run(call: Call, refusals: list[str]) -> Iterator[Session]:
    """A write transaction of which nothing is stored. Where a budget has no room, why is added to
    `refusals`; any other ProblemError is raised."""
    try:
        with call.writing() as session:
            yield session
            session.rollback()
    except ProblemError as error:
        if error.slug != "budget-exhausted":
            raise
        refusals.append(error.detail)


@dataclass(frozen=True)
class Trial:
    """What a submission of the plan would meet at present."""

    refusal: str | None
    """Why the federation's budgets would refuse it; None where they have room, or none is set."""
    warnings: list[str]
    is_bounded: bool
    """Whether a total is set in the book of its noise mode."""


def try_admission(call: Call, plans: Sequence[ExperimentPlan]) -> Trial:
    """Try the reservation itself, and roll it back, so that the answer is that of a submission.
    Raises ProblemError or InvalidInputError where the plans of `plan_seeds` would be refused for
    another reason than a budget."""
    planned = plans[0]
    warnings, refusals, is_bounded = list[str](), list[str](), False
    with dry_run(call, refusals) as session:
        budgets = call.budgets(session)
        federation_id, noise = store_federation(budgets, planned), planned.spec.privacy.noise
        kind = planned.ledger_context.inputs.cost_kind
        warnings = warnings_of(budgets, federation_id, noise=noise, cost_kind=kind)
        if len(plans) > 1:
            warnings.append(
                f"{len(plans)} seeds are asked for: each is a run that costs what the "
                "projection says, and budgets must have room for all of them"
            )
        is_bounded = any(
            one.book == noise and one.total is not None for one in budgets.budgets(federation_id)
        )
        with admitting(session, call) as admission:
            _admit(admission, plans, new_id())
    spec, clients = planned.spec, planned.training_clients
    if (
        isinstance(spec.privacy, GaussianCentral)
        and 0 < (spec.training.asked_clients or 0) < clients
    ):
        warnings.append(_FIXED_COHORT)
    refusal = refusals[0] if refusals else None
    return Trial(refusal, [*planned.doubts, *warnings], is_bounded)


def _queue(
    call: Call,
    plans: Sequence[ExperimentPlan],
    idempotency: IdempotentRequest,
    *,
    retry_of: str | None = None,
) -> Submitted:
    """Queue one in a transaction. Raises ProblemError or InvalidInputError where it is refused."""
    caller, id_ = call.caller, new_id()
    with call.writing() as session:
        if (known := idempotency.claimed_before(session, caller, id_)) is not None:
            before = find_experiment(session, caller, known)
            return _submitted_before(call.budgets(session), before)
        with admitting(session, call) as admission:
            experiment, unit = _admit(admission, plans, id_, retry_of=retry_of)
        kind = plans[0].ledger_context.inputs.cost_kind
        warnings = [*plans[0].doubts, *_warnings(call.budgets(session), experiment, kind)]
        names = ("federation_id", "noise", "retry_of", "spec_hash")
        details = {name: getattr(experiment, name) for name in names}
        action: AuditAction = "experiment.submitted" if retry_of is None else "experiment.retried"
        note(session, caller, action, id_, **details)
        refuse_over_running(session, call.project_id, call.resources.settings)
    log.info("experiment queued", experiment_id=id_, unit_id=unit.id)
    return Submitted(experiment, [unit], warnings)


def _admit(
    admission: Admitting,
    plans: Sequence[ExperimentPlan],
    experiment_id: str,
    *,
    retry_of: str | None = None,
) -> tuple[Experiment, Unit]:
    """Queue an experiment for each seed in one unit; several are cells of a sweep that states their
    joint cost. The first comes last in the unit: its report includes the others."""
    # Several are neither joined nor taken apart: the report of one includes the others.
    unit = admission.queue(plans[0], alone=len(plans) > 1)
    ids = [experiment_id, *(new_id() for _ in plans[1:])]
    queued = [
        admission.admit(
            one,
            unit,
            experiment_id=id_,
            unit_position=(place - 1) % len(plans),
            retry_of=retry_of if place == 0 else None,
        )
        for place, (id_, one) in enumerate(zip(ids, plans, strict=True))
    ]
    if len(plans) > 1:
        spec = plans[0].spec
        base = spec.model_dump(mode="json", exclude={"repeats"})
        SweepRepository(admission.budgets.session, admission.budgets.project_id).add(
            new_id(),
            name=spec.name,
            asked={"name": spec.name, "base": base, "repeats": spec.repeats},
            facts=sweep_facts([(one.spec, one.ledger_context) for one in plans]),
            cells=[(id_, {"seed": one.spec.seed}) for id_, one in zip(ids, plans, strict=True)],
            by=admission.by,
        )
    return queued[0], unit
