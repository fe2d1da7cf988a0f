"""Rows that tests begin with."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np
from sqlalchemy.orm import Session

from fedaudit.stored import Cost, LeakageTerms, LedgerRow
from models.database import Database
from models.repositories import (
    ExperimentRepository,
    FederationRepository,
    ProjectRepository,
    SubjectSetRepository,
    UnitRepository,
)
from models.tables.experiments import Experiment
from models.values import new_id

T = TypeVar("T")

TERMS = LeakageTerms("adaptive", None)

NAMES = ("07001", "07002", "07003", "07004")
"""Subject keys; the ledger rows below name them by index."""

LAPLACE = {
    "mechanism": "laplace-l2",
    "n": 27,
    "noise_multiplier": 3.0,
    "radius": None,
    "radius_floor": 1e-6,
    "clip": None,
    "noise": "simulation",
    "guarantee": "heuristic",
    **dict.fromkeys(("event", "delta", "adjacency", "accountant", "components")),
}


def at_once(call: Callable[[int], T], times: int) -> list[T]:
    """The answers to `call(0)`, `call(1)`, ..., each in its own thread. Raises what any raises."""
    start = threading.Barrier(times)

    def called(number: int) -> T:
        start.wait()
        return call(number)

    with ThreadPoolExecutor(times) as pool:
        return list(pool.map(called, range(times)))


def of_leakage(amount: float, terms: LeakageTerms = TERMS) -> list[Cost]:
    """What a run that leaks so much asks for."""
    return [Cost(figure="leakage", adjacency=terms.key, amount=amount)]


def add_project(session: Session, name: str = "hospital") -> str:
    """A project's id."""
    return ProjectRepository(session).get_or_create(name).id


def add_federation(session: Session, project_id: str, fingerprint: str = "f" * 64) -> str:
    """A federation's id."""
    federations = FederationRepository(session, project_id)
    return federations.get_or_create(
        fingerprint=fingerprint, name="four conditions", source="hospital-charges", profile={}
    ).id


def add_experiment(session: Session, project_id: str, **changes: Any) -> Experiment:
    """A queued experiment with its federation, subjects and unit; `changes` override fields."""
    values: dict[str, Any] = {
        "id": new_id(),
        "name": "hospital-k5-nu3",
        "spec": {"name": "hospital-k5-nu3", "seed": 3},
        "spec_hash": "a" * 64,
        "seed": 3,
        "mechanism": "laplace-l2",
        "hypotheses": 5,
        "noise": "simulation",
        "rounds_total": 500,
        "parameters": 27,
        "noise_multiplier": 3.0,
        "attributes": {},
        "unit_position": 0,
    }
    if "federation_id" not in changes:
        values["federation_id"] = add_federation(session, project_id)
    if "unit_id" not in changes:
        values["unit_id"] = UnitRepository(session).create(project_id, "auto").id
    values["subject_set_id"] = SubjectSetRepository(session).put(NAMES)
    return ExperimentRepository(session, project_id).add(**{**values, **changes})


def queued(database: Database, **changes: Any) -> tuple[str, Experiment]:
    """A project's id and an experiment queued in it, committed."""
    with database.write() as session:
        project_id = add_project(session)
        return project_id, add_experiment(session, project_id, **changes)


def ledger_row(round_: int, *, release: int = 0, **changes: Any) -> LedgerRow:
    """A round in which one subject released, one was refused and one was withheld."""
    values: dict[str, Any] = {
        "round": round_,
        "release": release,
        "subject_kind": "client",
        "observer": "server",
        "subjects": np.array([0, 2, 3], np.int32),
        "outcomes": np.array([0, 1, 2], np.uint8),
        "radii": np.array([0.1, np.nan, np.nan]),
        "releases": np.array([round_, 0, 0], np.int32),
        "clusters": np.array([1, -1, -1], np.int16),
        "inputs": LAPLACE,
        "digest": bytes([round_ % 256]) * 32,
        "link": bytes([255 - round_ % 256]) * 32,
    }
    return LedgerRow(**{**values, **changes})
