"""Experiments that are admitted as the API admits them, without HTTP."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from celery.worker import state as celery_state

from api.services.admission import store_federation
from api.services.submission import Admitting
from fedaudit.federations.load import load_federation
from fedaudit.federations.reading.source_files import Files, OpenUpload
from fedaudit.privacy.accounting.accountant import composed_epsilon
from fedaudit.reports.report import report_hash
from fedaudit.runs.experiment_plan import ExperimentPlan, plan_experiment
from fedaudit.spec.parse import parse_spec
from fedaudit.stored import LeakageTerms, LedgerRow, RoundRow
from infrastructure.settings import Settings
from models.database import Database
from models.person import Actor
from models.repositories import (
    Budgets,
    EventRepository,
    ExperimentRepository,
    LedgerRepository,
    ProjectRepository,
    ReportRepository,
    RoundRepository,
    UnitRepository,
    gathered_writes,
)
from models.tables.experiments import Experiment, Unit
from models.values import Budget, new_id
from tests.workers.registering import Registered
from workers.context import WorkerContext
from workers.run_unit import run_unit

SPEC: dict[str, Any] = {
    "name": "linear",
    "seed": 5,
    "federation": {"source": "synthetic-linear", "clients": 40, "rows_per_client": 5},
    "model": {"kind": "linear", "intercept": False},
    "training": {
        "loss": "rmse",
        "hypotheses": 2,
        "rounds": 12,
        "cohort": {"clients": 7},
        "stopping": {"patience": None},
    },
    "privacy": {"mechanism": "laplace-l2", "noise_multiplier": 3.0},
}

IN_BATCHES = {"batch_size": 2, "epochs": 2}
"""Small batches make a run of 2,000 rounds last three seconds after its first rounds are stored. On
a busy machine the half second of whole passes is over before a signal arrives."""


def spec_with(**changes: Any) -> dict[str, Any]:
    """The spec above with changes, named by their path: `training__rounds=5`."""
    spec: dict[str, Any] = {**SPEC}
    for path, value in changes.items():
        *parents, last = path.split("__")
        part = spec
        for parent in parents:
            part[parent] = {**part.get(parent, {})}
            part = part[parent]
        part[last] = value
    return spec


@dataclass(frozen=True)
class Submitted:
    """One unit and its experiments."""

    project_id: str
    unit_id: str
    experiment_ids: tuple[str, ...]
    federation_id: str

    @property
    def id(self) -> str:
        """The only experiment's id."""
        (only,) = self.experiment_ids
        return only


def submit(
    database: Database,
    *specs: Mapping[str, Any],
    sources_dir: Path | None = None,
    open_upload: OpenUpload | None = None,
    budget: float | None = None,
    max_attempts: int = 3,
    device: str = "auto",
) -> Submitted:
    """Admit experiments as one unit, which is not published.

    `budget`: the total that is set before, of the figure that each experiment is counted in.
    """
    plans = []
    for spec in map(parse_spec, specs or [SPEC]):
        data = load_federation(spec, files=Files(sources_dir, open_upload))
        plans.append(plan_experiment(spec, data))
    ids = tuple(new_id() for _ in plans)
    with database.write() as session:
        project_id = ProjectRepository(session).get_or_create("tests").id
        units = UnitRepository(session)
        unit = units.create(project_id, device, max_attempts=max_attempts)
        units.mark_published([unit.id], published=False)
        for position, planned in enumerate(plans):
            budgets = Budgets(session, project_id, price=composed_epsilon)
            federation_id = store_federation(budgets, planned)
            if budget is not None:
                _set_budget(budgets, federation_id, planned, total=budget)
            with admitting(budgets, max_attempts) as one:
                place = {"experiment_id": ids[position], "unit_position": position}
                one.admit(planned, unit, **place)
        return Submitted(project_id, unit.id, ids, federation_id)


@contextmanager
def admitting(budgets: Budgets, max_attempts: int) -> Iterator[Admitting]:
    """Admit as the API does, in the name of a key without a person."""
    with gathered_writes(budgets.session), ExitStack() as notices:
        yield Admitting(budgets, max_attempts, Actor("a-key", "tests", None), notices)


def with_settings(context: WorkerContext, **changes: Any) -> WorkerContext:
    """The worker with other settings."""
    kept = context.settings.model_dump(exclude={"embedded"})
    return WorkerContext(Settings(**{**kept, **changes}), context.database, context.queue, "cpu")


def ran(
    database: Database, context: WorkerContext, *specs: Mapping[str, Any], **admitted: Any
) -> Submitted:
    """Admit experiments as `submit` does, with one attempt of a worker at them."""
    submitted = submit(database, *specs, **admitted)
    run_unit(context, submitted.unit_id)
    return submitted


def unit_of(database: Database, admitted: Submitted | Registered) -> Unit:
    """The unit as it is now."""
    with database.read() as session:
        found = UnitRepository(session).get(admitted.unit_id)
    assert found is not None
    return found


def experiment_of(database: Database, submitted: Submitted, position: int = 0) -> Experiment:
    """The experiment as it is now."""
    with database.read() as session:
        experiments = ExperimentRepository(session, submitted.project_id)
        found = experiments.get(submitted.experiment_ids[position])
    assert found is not None
    return found


def ended_as(database: Database, submitted: Submitted) -> tuple[str, str | None]:
    """The only experiment's status, and the reason that goes with it."""
    experiment = experiment_of(database, submitted)
    return experiment.status, experiment.status_reason


def events_of(database: Database, experiment_id: str) -> Sequence[tuple[str, dict[str, Any]]]:
    """Every event of an experiment."""
    with database.read() as session:
        found = EventRepository(session).after(experiment_id, limit=10_000)
    return [(event.type, event.data) for event in found]


def document_of(database: Database, submitted: Submitted) -> dict[str, Any]:
    """The stored report."""
    with database.read() as session:
        report = ReportRepository(session, submitted.project_id).get(submitted.id)
    assert report is not None, experiment_of(database, submitted).status_detail
    assert report.report_hash == report_hash(report.document)
    return report.document


def ledger_of(database: Database, submitted: Submitted) -> list[LedgerRow]:
    """All rows of the ledger."""
    with database.read() as session:
        return LedgerRepository(session).rows_after(submitted.id, limit=100_000)


def rounds_of(database: Database, submitted: Submitted) -> list[RoundRow]:
    """The figures of all rounds."""
    with database.read() as session:
        return RoundRepository(session).after(submitted.id)


def budget_of(database: Database, submitted: Submitted) -> Budget:
    """The only budget of the federation."""
    with database.read() as session:
        (found,) = Budgets(session, submitted.project_id).budgets(submitted.federation_id)
    return found


def cancel(database: Database, submitted: Submitted) -> str:
    """Ask that the only experiment ends; returns its status."""
    with database.write() as session:
        ExperimentRepository(session, submitted.project_id).request_cancel(submitted.id)
    return experiment_of(database, submitted).status


def lose(database: Database, admitted: Submitted | Registered, *, seconds: float = 0.0) -> int:
    """A worker claims the unit and is never heard of again; returns its fence."""
    with database.write() as session:
        claim = UnitRepository(session).claim(
            admitted.unit_id, worker="gone", devices={"auto"}, lease_seconds=seconds
        )
    assert claim is not None
    return claim.fence


def crash() -> None:
    """A fault that a worker survives."""
    raise SystemError("power cut")


def stop_worker() -> None:
    """A signal asks the worker to stop."""
    celery_state.should_stop = 0


def _set_budget(
    budgets: Budgets, federation_id: str, planned: ExperimentPlan, *, total: float
) -> None:
    book, plan = planned.spec.privacy.noise, planned.ledger_context.plan
    if plan is None:
        inputs = planned.ledger_context.inputs
        terms = LeakageTerms.of(radius=inputs.radius, clip=inputs.clip)
        budgets.set_budget(federation_id, book=book, figure="leakage", total=total, terms=terms)
        return
    budgets.set_budget(
        federation_id,
        book=book,
        figure="epsilon",
        total=total,
        delta=plan.delta,
        adjacency=plan.adjacency,
        observer=plan.observers[0],
    )
