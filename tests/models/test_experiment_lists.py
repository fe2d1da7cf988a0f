"""Lists of experiments: every item on exactly one page, in order, whatever the sort."""

from datetime import timedelta
from typing import Any

import pytest

from fedaudit.privacy import leakage as metric
from models.database import Database
from models.repositories import ExperimentRepository, UnitRepository
from models.repositories.experiments import SORT_KEYS
from models.values import Cursor, ExperimentFilters, FinalFigures, NewExperiment
from tests.models.rows import add_experiment, add_federation, add_project

_LEAKAGES = (3.0, None, 1.0, 3.0, None, 2.0, 1.0)


def _fill(database: Database) -> tuple[str, list[NewExperiment]]:
    """Seven experiments, some with equal figures and some with none."""
    added = []
    with database.write() as session:
        project_id = add_project(session)
        unit_id = UnitRepository(session).create(project_id, "auto").id
        experiments = ExperimentRepository(session, project_id)
        for i, leakage in enumerate(_LEAKAGES):
            added.append(
                add_experiment(
                    session, project_id, name=f"n{i % 3}", unit_id=unit_id, tags=[f"t{i % 2}"]
                )
            )
            if leakage is not None:
                figures = FinalFigures(leakage_max=leakage, equalized_odds_difference=leakage / 10)
                experiments.conclude(
                    added[-1].id, status="succeeded", figures=figures, price=metric.leakage
                )
    return project_id, added


def _pages(database: Database, project_id: str, *, sort: str, limit: int) -> list[str]:
    ids: list[str] = []
    cursor: Cursor | None = None
    while True:
        with database.read() as session:
            page = ExperimentRepository(session, project_id).list(
                sort=sort, cursor=cursor, limit=limit
            )
        assert len(page.items) <= limit
        ids += [item.id for item in page.items]
        cursor = page.next_cursor
        if cursor is None:
            return ids


def test_pages_join_into_the_whole_list(database: Database) -> None:
    project_id, added = _fill(database)
    for sort in [sign + key for key in SORT_KEYS for sign in ("", "-")]:
        whole = _pages(database, project_id, sort=sort, limit=100)
        assert sorted(whole) == sorted(new.id for new in added)
        for limit in (1, 3):
            assert _pages(database, project_id, sort=sort, limit=limit) == whole, sort


def test_figures_sort_with_nulls_last_and_ties_by_age(database: Database) -> None:
    project_id, added = _fill(database)
    position = {new.id: i for i, new in enumerate(added)}

    def order(sort: str) -> list[int]:
        return [position[id_] for id_ in _pages(database, project_id, sort=sort, limit=2)]

    assert order("leakage_max") == [2, 6, 5, 0, 3, 1, 4]
    assert order("-leakage_max") == [3, 0, 5, 6, 2, 4, 1]
    assert order("-created_at") == [6, 5, 4, 3, 2, 1, 0]


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({}, [6, 5, 4, 3, 2, 1, 0]),
        ({"status": "queued"}, [4, 1]),
        ({"name": "n1"}, [4, 1]),
        ({"tag": "t1"}, [5, 3, 1]),
        ({"mechanism": "none"}, []),
        ({"federation_id": "0"}, []),
        ({"bounds": [("leakage_max", "lte", 2.0)]}, [6, 5, 2]),
        ({"bounds": [("leakage_max", "gte", 2.0)]}, [5, 3, 0]),
        (
            {
                "bounds": [("leakage_max", "lte", 2.0), ("equalized_odds_difference", "gte", 0.15)],
                "status": "succeeded",
            },
            [5],
        ),
    ],
)
def test_filters_must_all_hold(
    database: Database, filters: dict[str, Any], expected: list[int]
) -> None:
    project_id, added = _fill(database)
    with database.read() as session:
        page = ExperimentRepository(session, project_id).list(ExperimentFilters(**filters))
    assert [item.id for item in page.items] == [added[i].id for i in expected]


def test_times_are_bounds_that_are_included(database: Database) -> None:
    project_id, added = _fill(database)
    with database.read() as session:
        experiments = ExperimentRepository(session, project_id)
        times = [item.created_at for item in experiments.list(sort="created_at").items]
        between = ExperimentFilters(created_after=times[2], created_before=times[4])
        found = experiments.list(between, sort="created_at").items
        later = ExperimentFilters(created_after=times[-1] + timedelta(microseconds=1))
        assert experiments.list(later).items == []
    assert [item.id for item in found] == [new.id for new in added[2:5]]


def test_a_federation_filters_its_experiments(database: Database) -> None:
    with database.write() as session:
        project_id = add_project(session)
        add_experiment(session, project_id)
        other = add_federation(session, project_id, "0" * 64)
        wanted = add_experiment(session, project_id, federation_id=other)
        page = ExperimentRepository(session, project_id).list(
            ExperimentFilters(federation_id=other)
        )
    assert [item.id for item in page.items] == [wanted.id]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"sort": "colour"}, "sort: 'colour'"),
        ({"sort": "leakage_max", "cursor": ("id",)}, "another sort"),
        ({"filters": ExperimentFilters(bounds=[("id", "lte", 0.0)])}, "not a final figure"),
        ({"filters": ExperimentFilters(bounds=[("accuracy", "eq", 0.0)])}, r"\[lte\] or \[gte\]"),
    ],
)
def test_what_cannot_be_answered_is_named(
    database: Database, arguments: dict[str, Any], message: str
) -> None:
    with database.read() as session, pytest.raises(ValueError, match=message):
        ExperimentRepository(session, "p").list(**arguments)
