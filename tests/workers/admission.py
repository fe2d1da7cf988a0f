"""What the API does when an experiment is submitted, for tests that have no API."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy.orm import Session

from fedaudit.federations.federation import Federation
from fedaudit.federations.load import load_federation
from fedaudit.federations.sources import OpenUpload
from fedaudit.federations.split import training_clients
from fedaudit.ledger.accounts import account_of
from fedaudit.ledger.composition import composed_epsilon
from fedaudit.networks.shape import layer_sizes, network_shape
from fedaudit.privacy.projection import project_cost
from fedaudit.privacy.spending_plan import SpendingPlan
from fedaudit.spec.canonical import spec_hash
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.parse import parse_spec
from fedaudit.spec.privacy import LaplaceL2
from fedaudit.training.spending import spending_of
from models.database import Database
from models.records import EpsilonCost, NewExperiment
from models.repositories import (
    EpsilonBudgetRepository,
    ExperimentRepository,
    FederationRepository,
    OutboxRepository,
    ProjectRepository,
    SubjectSetRepository,
    UnitRepository,
)
from models.tables.experiments import Experiment

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
    """Store experiments as one unit, with its outbox message."""
    parsed = [parse_spec(spec) for spec in specs or [SPEC]]
    loaded = [
        load_federation(spec, sources_dir=sources_dir, open_upload=open_upload) for spec in parsed
    ]
    with database.write() as session:
        project = ProjectRepository(session).get_or_create("tests")
        unit = UnitRepository(session).create(project.id, device, max_attempts=max_attempts)
        federations = FederationRepository(session, project.id)
        ids = []
        for position, (spec, data) in enumerate(zip(parsed, loaded, strict=True)):
            federation = federations.get_or_create(
                fingerprint=data.fingerprint,
                name=spec.name,
                source=spec.federation.source,
                profile={},
            )
            new = _new_experiment(session, spec, data, federation.id, unit.id, position)
            ids.append(ExperimentRepository(session, project.id).add(new).id)
            _reserve(federations, federation.id, new, spec, data, budget)
        message = {"unit_id": unit.id, "device": device}
        OutboxRepository(session).add(project.id, "unit", message)
        return Submitted(project.id, unit.id, tuple(ids), federation.id)


def experiment_of(database: Database, submitted: Submitted, position: int = 0) -> Experiment:
    """The experiment as it is now."""
    with database.read() as session:
        experiments = ExperimentRepository(session, submitted.project_id)
        found = experiments.get(submitted.experiment_ids[position])
    assert found is not None
    return found


def _reserve(
    federations: FederationRepository,
    federation_id: str,
    new: NewExperiment,
    spec: ExperimentSpec,
    data: Federation,
    budget: float | None,
) -> None:
    plan, book = spending_of(spec, data), spec.privacy.noise
    if plan is not None:
        _reserve_epsilon(federations, federation_id, new, plan, book, budget)
        return
    training = training_clients(data.clients, spec.federation)
    cost = project_cost(spec, n=new.parameters, training_clients=training)
    if cost.leakage_worst_case is None:
        return
    if budget is not None:
        federations.set_budget(federation_id, book=book, figure="leakage", total=budget)
    assert federations.reserve(
        federation_id, experiment_id=new.id, book=book, amount=cost.leakage_worst_case
    )


def _reserve_epsilon(
    federations: FederationRepository,
    federation_id: str,
    new: NewExperiment,
    plan: SpendingPlan,
    book: str,
    budget: float | None,
) -> None:
    if budget is not None:
        federations.set_budget(
            federation_id,
            book=book,
            figure="epsilon",
            total=budget,
            delta=plan.delta,
            adjacency=plan.adjacency,
            observer=plan.observers[0],
        )
    costs = [
        EpsilonCost(
            observer=observer,
            adjacency=plan.adjacency,
            unit="record" if plan.subject_kind == "record_group" else "client",
            delta=plan.delta,
            epsilon=plan.largest(observer, plan.steps),
            curve=plan.curve(observer, plan.steps),
            step=plan.curve(observer, 1),
            compositions=plan.steps,
        )
        for observer in plan.observers
    ]
    epsilons = EpsilonBudgetRepository(federations.session, federations.project_id)
    refusal = epsilons.reserve(
        federation_id, experiment_id=new.id, book=book, costs=costs, price=composed_epsilon
    )
    assert refusal is None


def _new_experiment(
    session: Session,
    spec: ExperimentSpec,
    data: Federation,
    federation_id: str,
    unit_id: str,
    position: int,
) -> NewExperiment:
    shape = network_shape(spec.model, features=data.width, classes=len(data.classes))
    account = account_of(
        spec,
        layers=layer_sizes(shape),
        client_names=data.client_names,
        plan=spending_of(spec, data),
    )
    return NewExperiment(
        name=spec.name,
        spec=spec.model_dump(mode="json"),
        spec_hash=spec_hash(spec),
        seed=spec.seed,
        mechanism=spec.privacy.mechanism,
        hypotheses=spec.training.hypotheses,
        noise=spec.privacy.noise,
        rounds_total=spec.training.rounds,
        federation_id=federation_id,
        subject_set_id=SubjectSetRepository(session).put(account.subjects),
        unit_id=unit_id,
        unit_position=position,
        parameters=shape.n,
        noise_multiplier=(
            spec.privacy.noise_multiplier if isinstance(spec.privacy, LaplaceL2) else None
        ),
        mechanism_inputs=None if account.inputs.follow_from_n else account.inputs.as_dict(),
        attributes={one.name: one.values for one in data.attributes},
    )


def events_of(database: Database, experiment_id: str) -> Sequence[tuple[str, dict[str, Any]]]:
    """Every event of an experiment."""
    from models.repositories import EventRepository

    with database.read() as session:
        found = EventRepository(session).after(experiment_id, limit=10_000)
    return [(event.type, event.data) for event in found]
