"""A run that succeeded is found by its figures."""

from models.database import Database
from models.repositories import ReportListRepository, ReportRepository
from models.values import ReportFilters
from tests.workers.admission import spec_with, submit
from tests.workers.epsilon_specs import by_record
from tests.workers.test_run_unit import GROUPS
from workers.context import WorkerContext
from workers.run_unit import run_unit


def test_a_finished_run_is_listed_with_its_figures(
    database: Database, context: WorkerContext
) -> None:
    submitted = submit(database, spec_with(**GROUPS, training__rounds=3))
    run_unit(context, submitted.unit_id)
    with database.read() as session:
        reports = ReportListRepository(session, submitted.project_id)
        [listed] = reports.list(ReportFilters(attribute="group", guarantee="heuristic")).items
        figures = reports.figures([submitted.id])[submitted.id]
        stored = ReportRepository(session).get(submitted.id)
    assert stored is not None
    document = stored.document
    assert listed.experiment_id == submitted.id
    assert listed.report_hash == stored.report_hash
    assert listed.summary is not None
    assert listed.summary["verdict"] == document["verdict"]
    [section] = document["fairness"]
    found = {(one.figure, one.attribute): one for one in figures}
    assert found["leakage_max", ""].value == document["privacy"]["leakage_max"]
    for name, metric in section["metrics"].items():
        assert found[name, "group"].value == metric["value"]
        assert found[name, "group"].reason == metric["reason"]
    assert all(one.reason for one in figures if one.value is None)


def test_an_epsilon_is_listed_before_each_observer(
    database: Database, context: WorkerContext
) -> None:
    submitted = submit(database, by_record())
    run_unit(context, submitted.unit_id)
    with database.read() as session:
        figures = ReportListRepository(session, submitted.project_id).figures([submitted.id])
        stored = ReportRepository(session).get(submitted.id)
    assert stored is not None
    privacy = stored.document["privacy"]
    spent = {
        one.observer: (one.value, one.delta, one.adjacency)
        for one in figures[submitted.id]
        if one.figure == "epsilon_max"
    }
    stated = {
        one["observer"]: (one["value"], one["delta"], one["adjacency"])
        for one in privacy["epsilon"]
    }
    largest = max(stated.values())
    assert spent == {"": largest, **stated}
    assert largest[0] == privacy["epsilon_max"]
