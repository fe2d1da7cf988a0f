"""What a worker says of the policy under which it runs, and of files that are not the project's."""

from collections.abc import Iterator
from typing import Any

import pytest

from fedaudit.spec.errors import InvalidInputError
from infrastructure.settings import Settings
from models.database import Database
from models.repositories import FederationRepository, ReportRepository
from tests.workers.admission import Submitted, experiment_of, spec_with, submit
from tests.workers.registering import federation_of, people, register
from workers.context import WorkerContext
from workers.run_unit import run_unit

SPEC = spec_with(
    federation={
        "source": "table",
        "path": "people.csv",
        "client_key": "client",
        "target": "y",
        "features": ["x"],
    },
    model={"kind": "linear"},
    training__rounds=2,
    fairness={"sensitive": ["sex"], "intervals": None, "minimum_group_size": 10},
)


@pytest.fixture
def on_sqlite(sqlite_url: str) -> Iterator[Database]:
    """A database of the quicker kind: nothing here is about the database."""
    database = Database(sqlite_url)
    yield database
    database.dispose()


def _with(context: WorkerContext, **changes: Any) -> WorkerContext:
    settings = Settings(**{**context.settings.model_dump(exclude={"embedded"}), **changes})
    return WorkerContext(settings, context.database, context.queue, "cpu")


def _limits(database: Database, submitted: Submitted) -> str:
    with database.read() as session:
        report = ReportRepository(session).get(submitted.id)
    return " ".join(report.document["limits"])


def test_a_report_names_the_policy_under_which_it_was_admitted(on_sqlite, make_context, tmp_path):
    database = on_sqlite
    context = _with(make_context(database), sources_dir=tmp_path)
    (tmp_path / "people.csv").write_bytes(people(300))
    first = submit(database, SPEC, sources_dir=tmp_path)
    with database.write() as session:
        federations = FederationRepository(session, first.project_id)
        federations.set_disclosure(first.federation_id, {"minimum_group_size": 10, "edges": {}})
    second = submit(database, SPEC, sources_dir=tmp_path)
    with pytest.raises(InvalidInputError, match="minimum_group_size"):
        submit(
            database,
            {**SPEC, "fairness": {**SPEC["fairness"], "minimum_group_size": 9}},
            sources_dir=tmp_path,
        )
    for submitted, stated in (
        (first, "had set no disclosure policy"),
        (second, "Set by the federation's owner: groups of 10 scored rows or more, edges."),
    ):
        run_unit(context, submitted.unit_id)
        assert stated in _limits(database, submitted)


def test_a_worker_asks_the_map_for_what_was_admitted_before(on_sqlite, make_context, tmp_path):
    database = on_sqlite
    (tmp_path / "map.yaml").write_text("people.csv: [another]")
    (tmp_path / "people.csv").write_bytes(people(300))
    context = _with(make_context(database), sources_dir=tmp_path, sources_map=tmp_path / "map.yaml")
    submitted = submit(database, SPEC, sources_dir=tmp_path)
    run_unit(context, submitted.unit_id)
    row = experiment_of(database, submitted)
    assert (row.status, row.status_reason) == ("failed", "invalid-data")
    assert "there is no file 'people.csv'" in str(row.status_detail)
    registered = register(database, people(300))
    run_unit(context, registered.unit_id)
    profiled = federation_of(database, registered)
    assert profiled.status == "rejected"
    assert "there is no file 'people.csv'" in str(profiled.reasons)
