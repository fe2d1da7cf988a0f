"""Federations: one for each content, whatever became of it before."""

from typing import Any

import pytest

from fedaudit.stored import LeakageTerms
from models.database import Database
from models.repositories import Budgets, FederationRepository, UnitRepository
from models.tables.federations import Federation
from models.values import NewFile
from tests.models.rows import add_project

CONTENT = "c" * 64
PROFILE = {"rows": 40, "clients": 4}


def _file(**changes: Any) -> NewFile:
    values: dict[str, Any] = {
        "fingerprint": CONTENT,
        "registration": {"name": "incomes", "federation": {"source": "table", "path": "a.csv"}},
        "file_name": "a.csv",
        "size_bytes": 3_000_000_000,
        "storage_key": "federations/p/first",
    }
    return NewFile(**{**values, **changes})


def _register(database: Database, **changes: Any) -> tuple[str, Federation]:
    """The project, and the federation with a unit that waits to profile it."""
    with database.write() as session:
        project_id = add_project(session)
        unit = UnitRepository(session).create(project_id, "auto", kind="profile")
        federations = FederationRepository(session, project_id)
        return project_id, federations.register(_file(**changes), unit_id=unit.id)


def _ready(database: Database, project_id: str, row: Federation) -> bool:
    with database.write() as session:
        federations = FederationRepository(session, project_id)
        return federations.set_ready(row.id, PROFILE, unit_id=str(row.unit_id))


def _get(database: Database, project_id: str, id_: str) -> Any:
    with database.read() as session:
        return FederationRepository(session, project_id).get(id_)


def _state(database: Database, unit_id: str | None) -> str:
    with database.read() as session:
        return UnitRepository(session).get(str(unit_id)).state


def test_registering_anew_keeps_row_file_and_budget_and_withdraws_the_unit(database):
    project_id, first = _register(database)
    with database.write() as session:
        budgets = Budgets(session, project_id)
        terms = LeakageTerms("adaptive", None)
        budgets.set_budget(first.id, book="simulation", figure="leakage", total=5.0, terms=terms)
    renamed = {"name": "renamed", "federation": {"source": "table", "path": "a.csv"}}
    _, second = _register(database, registration=renamed, storage_key="federations/p/second")
    assert (second.id, second.name) == (first.id, "renamed")
    assert second.storage_key == "federations/p/first"
    assert _state(database, first.unit_id) == "cancelled"
    assert not _ready(database, project_id, first)
    assert _ready(database, project_id, second)
    with database.read() as session:
        [budget] = Budgets(session, project_id).budgets(first.id)
    assert budget.total == 5.0


@pytest.mark.parametrize("status", ["rejected", "deleted"])
def test_after_a_rejection_or_a_deletion_the_new_file_counts(database, status):
    project_id, row = _register(database)
    reason = {"pointer": "/federation/target", "message": "no such column"}
    with database.write() as session:
        federations = FederationRepository(session, project_id)
        if status == "rejected":
            assert federations.set_rejected(row.id, [reason], unit_id=str(row.unit_id))
        else:
            assert federations.mark_deleted(row.id)
            assert not federations.mark_deleted(row.id)
    found = _get(database, project_id, row.id)
    assert (found.status, found.profile) == (status, {})
    assert found.reasons == ([reason] if status == "rejected" else None)
    assert _state(database, row.unit_id) == ("waiting" if status == "rejected" else "cancelled")
    _, again = _register(database, storage_key="federations/p/second")
    assert (again.id, again.status) == (row.id, "profiling")
    assert (again.storage_key, again.deleted_at) == ("federations/p/second", None)
    with database.write() as session:
        # A deletion that learns late of its success must not forget the new file.
        FederationRepository(session, project_id).forget_file(row.id, "federations/p/first")
    assert _get(database, project_id, row.id).storage_key == "federations/p/second"
