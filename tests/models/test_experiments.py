"""Experiments: from queued to ended, and what happens when their worker does not return."""

import numpy as np
import pytest

from fedaudit.privacy.leakage import leakage
from models.database import Database
from models.repositories import (
    Budgets,
    EventRepository,
    ExperimentRepository,
    LedgerRepository,
    UnitRepository,
    fail_unit,
)
from models.tables.experiments import Event, Experiment
from models.values import Claim, LeakageTerms
from tests.models.rows import add_experiment, add_project, ledger_row, queued


def _get(database: Database, project_id: str, experiment_id: str) -> Experiment:
    with database.read() as session:
        experiment = ExperimentRepository(session, project_id).get(experiment_id)
    assert experiment is not None
    return experiment


def _events(database: Database, experiment_id: str) -> list[Event]:
    with database.read() as session:
        return EventRepository(session).after(experiment_id)


def _claim(database: Database, unit_id: str, *, lease_seconds: float = 30) -> Claim:
    with database.write() as session:
        claim = UnitRepository(session).claim(
            unit_id, worker="w", devices={"auto"}, lease_seconds=lease_seconds
        )
    assert claim is not None
    return claim


def test_cancelling_one_cell_leaves_the_rest_of_its_unit(database: Database) -> None:
    project_id, first = queued(database)
    with database.write() as session:
        second = add_experiment(session, project_id, unit_id=first.unit_id, unit_position=1)
    with database.write() as session:
        experiments = ExperimentRepository(session, project_id)
        experiments.request_cancel(first.id, price=leakage)
        assert [cell.status for cell in experiments.of_unit(first.unit_id)] == [
            "cancelled",
            "queued",
        ]
        unit = UnitRepository(session).get(first.unit_id)
        assert unit.state == "waiting"
        experiments.request_cancel(second.id, price=leakage)
        unit = UnitRepository(session).get(first.unit_id)
        assert unit.state == "cancelled"


@pytest.fixture
def lost(database: Database) -> tuple[Database, str, str, str]:
    """A running experiment with 90 reserved, whose unit has just failed for good."""
    with database.write() as session:
        project_id = add_project(session)
        unit_id = UnitRepository(session).create(project_id, "auto", max_attempts=1).id
        new = add_experiment(session, project_id, unit_id=unit_id)
        Budgets(session, project_id).reserve(
            new.federation_id,
            experiment_id=new.id,
            book="simulation",
            amount=90.0,
            terms=LeakageTerms("adaptive", None),
        )
    claim = _claim(database, unit_id, lease_seconds=-1)
    with database.write() as session:
        ExperimentRepository(session, project_id).start(new.id)
        ledger = LedgerRepository(session)
        ledger.insert(new.id, project_id, [ledger_row(1)])
        releases = np.array([2, 0, 3, 1], np.int32)
        ledger.put_totals(new.id, project_id, releases=releases, refusals=0, withheld=0)
        assert UnitRepository(session).hold(unit_id, claim.fence)
    return database, project_id, new.id, new.federation_id


def test_a_lost_experiment_fails_and_keeps_what_it_spent(lost):
    database, project_id, experiment_id, federation_id = lost
    with database.write() as session:
        LedgerRepository(session).add_intents(
            experiment_id,
            project_id,
            [(1, 0, np.array([0, 2], np.int32)), (2, 0, np.array([2, 3], np.int32))],
        )
    with database.write() as session:
        [unit] = UnitRepository(session).reclaimable()
        taken = UnitRepository(session).take_back(unit.id)
        assert fail_unit(session, taken, price=leakage) == [experiment_id]
        assert fail_unit(session, taken, price=leakage) == []
    failed = _get(database, project_id, experiment_id)
    assert (failed.status, failed.status_reason) == ("failed", "worker-lost")
    assert failed.status_detail == "worker lost in each of 1 attempts"
    assert _events(database, experiment_id)[-1].data == {
        "status": "failed",
        "status_reason": "worker-lost",
    }
    with database.read() as session:
        (budget,) = Budgets(session, project_id).budgets(federation_id)
    # Three releases of client 2 and the open intent of round 2; n/nu = 27/3.
    assert (budget.reserved, budget.spent) == (0.0, 4 * 27 / 3.0)
