"""Submit a sweep: all of its cells are admitted, and reserved, in one transaction, or none is."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import structlog
from sqlalchemy.orm import Session

from api.http.problems import ProblemError, not_found
from api.schemas.sweeps import SweepValidationBody
from api.services.base.dispatch import UnitMessage
from api.services.base.idempotency import IdempotentRequest
from api.services.experiments.admission import RolledBack, plan
from api.services.experiments.admitting import admitting_for
from api.services.experiments.inherited_spec import parse_inherited
from api.services.federations.simulated_noise import warnings_of
from api.services.quotas.project_quotas import refuse_over_running
from api.services.sweeps.sweep_bodies import costs_of
from api.shared.load_pool import stop_if_given_up
from api.shared.resources import Resources
from api.shared.security import Caller
from fedaudit.privacy.accounting.mechanism_parameters import CostKind
from fedaudit.privacy.leakage import leakage
from fedaudit.runs.experiment_plan import ExperimentPlan
from fedaudit.spec.errors import InvalidInputError
from fedaudit.spec.parse import parse_spec
from fedaudit.spec.sweeps.sweep_cells import SweepCell, parse_cells, placed
from fedaudit.spec.sweeps.sweep_spec import SweepSpec, parse_sweep
from fedaudit.sweeps.sweep_facts import SweepFacts, sweep_facts
from models.identifiers import is_id, new_id
from models.repositories import (
    AuditLogRepository,
    ExperimentRepository,
    ReportRepository,
    SweepRepository,
)
from models.repositories.experiments import ENDED
from models.tables.experiments import Sweep

log = structlog.get_logger()

_TRIED_AGAIN = ("failed", "cancelled")


@dataclass(frozen=True)
class PlannedSweep:
    """A sweep that can be run, and what it would cost."""

    spec: SweepSpec
    cells: Sequence[tuple[SweepCell, ExperimentPlan]]

    @property
    def facts(self) -> SweepFacts:
        """What is known of all cells together."""
        return sweep_facts([(one.spec, one.ledger_context) for _, one in self.cells])


@dataclass(frozen=True)
class SubmittedSweep:
    """The sweep as it is now; messages of the units that were queued just now."""

    sweep: Sweep
    messages: list[UnitMessage] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def plan_sweep(resources: Resources, caller: Caller, value: Any) -> PlannedSweep:
    """Every cell over its data; no transaction.

    Raises InvalidInputError, with the faults of cells at the fields they follow from.
    """
    sweep = parse_sweep(value)
    planned = []
    for cell, spec in parse_cells(sweep, partial(parse_inherited, resources, caller)):
        stop_if_given_up()
        try:
            planned.append((cell, plan(resources, caller, spec)))
        except InvalidInputError as error:
            raise InvalidInputError([placed(sweep, cell, one) for one in error.errors]) from None
    return PlannedSweep(sweep, planned)


def submit_sweep(
    resources: Resources, caller: Caller, value: Any, idempotency: IdempotentRequest | None
) -> SubmittedSweep:
    """Queue every cell. Raises InvalidInputError, ProblemError; nothing is then stored."""
    if idempotency is not None:
        with resources.database.read() as session:
            if known := idempotency.lookup(session, caller):
                return SubmittedSweep(find_sweep(session, caller, known.resource_id or ""))
    planned = plan_sweep(resources, caller, value)
    sweep_id = new_id()
    with resources.database.write() as session:
        if (
            idempotency is not None
            and not idempotency.claim(session, caller, sweep_id)
            # The same request came twice at once, and the other one was first.
            and (known := idempotency.lookup(session, caller))
        ):
            return SubmittedSweep(find_sweep(session, caller, known.resource_id or ""))
        submitted = _store(resources, session, caller, sweep_id, planned)
    log.info("sweep queued", sweep_id=sweep_id, cells=len(planned.cells))
    return submitted


def try_sweep(resources: Resources, caller: Caller, value: Any) -> SweepValidationBody:
    """What a submission would meet at present: the reservation itself, rolled back.

    Raises InvalidInputError, or ProblemError where it would be refused for another reason than a
    budget.
    """
    planned = plan_sweep(resources, caller, value)
    found = SweepValidationBody(
        cells=len(planned.cells),
        costs=None,
        facts=planned.facts,
        has_room=False,
        detail=None,
        warnings=[],
    )
    try:
        with resources.database.write() as session:
            submitted = _store(resources, session, caller, new_id(), planned)
            found.costs = costs_of(session, caller, submitted.sweep)
            found.has_room, found.warnings = True, submitted.warnings
            raise RolledBack
    except RolledBack:
        pass
    except ProblemError as error:
        if error.slug != "budget-exhausted":
            raise
        found.detail = error.detail
    return found


def _store(
    resources: Resources, session: Session, caller: Caller, sweep_id: str, planned: PlannedSweep
) -> SubmittedSweep:
    ids, messages, drawn_on = [], [], set[tuple[str, str, CostKind]]()
    with admitting_for(resources, session, caller) as admitting:
        for position, (_, one) in enumerate(planned.cells):
            ids.append(new_id())
            message = admitting.queue(one)
            try:
                queued = admitting.admit(one, message, experiment_id=ids[-1])
            except ProblemError as error:
                raise _refused(error, position, len(planned.cells)) from None
            messages.append(message)
            kind = one.ledger_context.inputs.cost_kind
            drawn_on.add((queued.federation_id, queued.noise, kind))
    warnings = dict[str, None]()
    for federation_id, noise, kind in sorted(drawn_on):
        found = warnings_of(
            session,
            caller.project_id,
            federation_id,
            noise=noise,
            cost_kind=kind,
            across=resources.settings.budgets_across,
        )
        warnings |= dict.fromkeys(found)
    sweep = SweepRepository(session, caller.project_id).add(
        sweep_id,
        name=planned.spec.name,
        asked=planned.spec.model_dump(mode="json"),
        facts=planned.facts,
        cells=[(id_, cell.values) for id_, (cell, _) in zip(ids, planned.cells, strict=True)],
        by=caller.actor,
    )
    AuditLogRepository(session, caller.project_id).enter(
        "sweep.submitted", sweep_id, by=caller.actor, name=sweep.name, cells=len(ids)
    )
    refuse_over_running(session, caller.project_id, resources.settings)
    return SubmittedSweep(sweep, messages, list(warnings))


def _refused(error: ProblemError, position: int, cells: int) -> ProblemError:
    """The refusal of one cell as that of the sweep, which stored nothing."""
    return ProblemError(
        error.status,
        error.slug,
        f"cell {position + 1} of {cells} is refused, and so is the sweep; nothing was queued: "
        f"{error.detail}",
        errors=error.errors,
        headers=error.headers,
        cell=position,
        **error.members,
    )


def find_sweep(session: Session, caller: Caller, sweep_id: str) -> Sweep:
    """Raises ProblemError where the caller's project has no such sweep."""
    found = None
    if is_id(sweep_id):
        found = SweepRepository(session, caller.project_id).get(sweep_id)
    if found is None:
        raise not_found("sweep")
    return found


def cancel_sweep(resources: Resources, caller: Caller, sweep_id: str) -> Sweep:
    """Ask for the end of every cell that has not ended.

    Raises ProblemError where all have, or there is no such sweep.
    """
    with resources.database.write() as session:
        sweep = find_sweep(session, caller, sweep_id)
        cells = SweepRepository(session, caller.project_id).cells(sweep.id)
        going_on = [one for one in cells if one.experiment.status not in ENDED]
        if not going_on:
            raise ProblemError(409, "conflict", "every cell of the sweep has ended")
        experiments = ExperimentRepository(session, caller.project_id)
        for cell in going_on:
            experiments.request_cancel(cell.experiment.id, price=leakage, cancelled_by=caller.actor)
        AuditLogRepository(session, caller.project_id).enter(
            "sweep.cancelled", sweep.id, by=caller.actor, cells=len(going_on)
        )
        return sweep


def retry_sweep(
    resources: Resources, caller: Caller, sweep_id: str, idempotency: IdempotentRequest | None
) -> SubmittedSweep:
    """Queue every cell that failed or was cancelled once more, as new experiments of the sweep.

    Raises ProblemError where there is none, or a budget has no room for them; InvalidInputError
    where their data cannot be used any more.
    """
    with resources.database.read() as session:
        sweep = find_sweep(session, caller, sweep_id)
        if idempotency is not None and idempotency.lookup(session, caller):
            return SubmittedSweep(sweep)
        again = [
            cell
            for cell in SweepRepository(session, caller.project_id).cells(sweep.id)
            if cell.experiment.status in _TRIED_AGAIN
        ]
        _refuse_after_a_pass(session, caller, sweep)
    if not again:
        raise ProblemError(409, "conflict", "no cell of the sweep has failed or was cancelled")
    plans = [plan(resources, caller, parse_spec(cell.experiment.spec)) for cell in again]
    with resources.database.write() as session:
        if idempotency is not None and not idempotency.claim(session, caller, sweep.id):
            return SubmittedSweep(sweep)
        sweeps, messages = SweepRepository(session, caller.project_id), []
        sweeps.hold(sweep.id)
        # Once more: a report may have been signed while the cells were planned.
        _refuse_after_a_pass(session, caller, sweep)
        left = sweeps.leave(sweep.id, [cell.experiment.id for cell in again])
        if not left:
            raise ProblemError(
                409, "conflict", "another request has tried the cells again just now"
            )
        with admitting_for(resources, session, caller) as admitting:
            for cell, planned in zip(again, plans, strict=True):
                if (former := cell.experiment.id) in left:
                    messages.append(admitting.queue(planned))
                    id_ = new_id()
                    admitting.admit(planned, messages[-1], experiment_id=id_, retry_of=former)
                    sweeps.enter(sweep.id, cell, again=id_)
        AuditLogRepository(session, caller.project_id).enter(
            "sweep.retried", sweep.id, by=caller.actor, cells=len(messages)
        )
        refuse_over_running(session, caller.project_id, resources.settings)
    return SubmittedSweep(sweep, messages)


def _refuse_after_a_pass(session: Session, caller: Caller, sweep: Sweep) -> None:
    passed = _cells_that_passed_on_the_sweep(session, caller, sweep)
    if passed:
        raise ProblemError(
            409,
            "conflict",
            f"the report of cell {passed[0] + 1} passed a gate on what the sweep costs, which "
            "trying cells again would add to; submit what is missing as a sweep of its own",
        )


def _cells_that_passed_on_the_sweep(session: Session, caller: Caller, sweep: Sweep) -> list[int]:
    """Positions of cells whose signed report says that a gate on the sweep's costs passed."""
    found = []
    for cell in SweepRepository(session, caller.project_id).cells(sweep.id):
        asked = [gate["figure"] for gate in cell.experiment.spec.get("gates", ())]
        if not any(figure.startswith("sweep_") for figure in asked):
            continue
        report = ReportRepository(session, caller.project_id).get(cell.experiment.id)
        gates = [] if report is None else report.document["gates"]
        if any(one["figure"].startswith("sweep_") and one["outcome"] == "pass" for one in gates):
            found.append(cell.position)
    return found
