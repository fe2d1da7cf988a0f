"""Lists of reports: by any figure, every item on exactly one page, whatever the sort."""

from typing import Any

from models.database import Database
from models.repositories import ExperimentRepository, ReportListRepository, ReportRepository
from models.values import Cursor, ExperimentFilters, IndexedFigure, ReportFilters, ReportIndex
from tests.models.rows import add_experiment, add_project

GAP = "equalized_odds_difference"


def figure(name: str, value: float | None, **key: Any) -> IndexedFigure:
    return IndexedFigure(figure=name, value=value, reason=None if value else "unknown", **key)


def add_report(
    database: Database,
    project_id: str,
    *figures: IndexedFigure,
    kind: str = "heuristic",
    in_force: bool = True,
    **experiment: Any,
) -> str:
    """The id of an experiment with a report of these figures."""
    with database.write() as session:
        new = add_experiment(session, project_id, **experiment)
        ReportRepository(session).put(
            new.id,
            project_id,
            document={},
            report_hash="a" * 64,
            index=ReportIndex(
                guarantee_kind=kind,
                in_force=in_force,
                unit="client",
                summary={"verdict": "fine"},
                figures=figures,
            ),
        )
    return new.id


def project(database: Database) -> str:
    with database.write() as session:
        return add_project(session)


def ids(
    database: Database,
    project_id: str,
    *,
    sort: str = "-created_at",
    attribute: str = "",
    **by: Any,
) -> list[str]:
    """All that a list shows, read in pages of two."""
    found: list[str] = []
    cursor: Cursor | None = None
    while True:
        with database.read() as session:
            page = ReportListRepository(session, project_id).list(
                ReportFilters(**by), cursor=cursor, limit=2, sort=sort, attribute=attribute
            )
        found += [one.experiment_id for one in page.items]
        cursor = page.next_cursor
        if cursor is None:
            return found


def test_newest_first_also_without_an_index(database: Database) -> None:
    project_id = project(database)
    added = [add_report(database, project_id) for _ in range(4)]
    with database.write() as session:
        bare = add_experiment(session, project_id).id
        ReportRepository(session).put(bare, project_id, document={}, report_hash="b" * 64)
    assert ids(database, project_id) == [bare, *added[::-1]]
    assert ids(database, project_id, sort="created_at") == [*added, bare]
    with database.read() as session:
        newest, *_ = ReportListRepository(session, project_id).list().items
    assert newest.summary is None
    assert newest.report_hash == "b" * 64


def test_another_project_sees_nothing(database: Database) -> None:
    project_id = project(database)
    id_ = add_report(database, project_id, figure("leakage_max", 1.0))
    assert ids(database, "another") == []
    with database.read() as session:
        reports = ReportListRepository(session, "another")
        assert reports.figures([id_]) == {id_: []}
        assert reports.attributes("leakage_max") == []


def test_sorting_by_a_figure_puts_nulls_last_and_leaves_out_who_lacks_it(
    database: Database,
) -> None:
    project_id = project(database)
    values = (3.0, None, 1.0, 3.0, None, 2.0)
    added = [add_report(database, project_id, figure("leakage_max", one)) for one in values]
    add_report(database, project_id, figure("accuracy", 0.5))
    a, b, c, d, e, f = added
    assert ids(database, project_id, sort="leakage_max") == [c, f, a, d, b, e]
    assert ids(database, project_id, sort="-leakage_max") == [d, a, f, c, e, b]


def test_a_bound_without_an_attribute_holds_for_every_attribute(database: Database) -> None:
    project_id = project(database)

    def gaps(sex: float | None, race: float | None) -> str:
        return add_report(
            database,
            project_id,
            figure(GAP, sex, attribute="sex"),
            figure(GAP, race, attribute="race"),
        )

    fair, mixed, unknown = gaps(0.05, 0.08), gaps(0.05, 0.5), gaps(0.05, None)
    bound = {"bounds": [(GAP, "lte", 0.1)]}
    assert ids(database, project_id, **bound) == [fair]
    with database.read() as session:
        reports = ReportListRepository(session, project_id)
        by_sex = reports.list(ReportFilters(attribute="sex", **bound)).items
        assert [one.experiment_id for one in by_sex] == [unknown, mixed, fair]
        assert reports.list(ReportFilters(attribute="age", **bound)).items == []
        assert reports.attributes(GAP) == ["race", "sex"]
    assert ids(database, project_id, sort="-" + GAP, attribute="race") == [mixed, fair, unknown]
    assert ids(database, project_id, bounds=[(GAP, "gte", 0.06)]) == []


def test_epsilons_are_found_by_what_they_mean(database: Database) -> None:
    project_id = project(database)

    def spent(value: float, delta: float, adjacency: str, server: float) -> str:
        meaning = {"delta": delta, "adjacency": adjacency}
        return add_report(
            database,
            project_id,
            figure("epsilon_max", max(value, server), **meaning),
            figure("epsilon_max", value, observer="final_model", **meaning),
            figure("epsilon_max", server, observer="server", **meaning),
            figure("leakage_max", None),
            kind="formal",
        )

    replace = spent(1.0, 1e-5, "replace-one", 4.0)
    remove = spent(2.0, 1e-5, "add-or-remove-one", 3.0)
    other_delta = spent(1.0, 1e-3, "replace-one", 1.0)
    leakage = add_report(
        database, project_id, figure("epsilon_max", None), figure("leakage_max", 2.0)
    )
    at = {"delta": 1e-5}
    assert ids(database, project_id, **at) == [remove, replace]
    assert ids(database, project_id, **at, bounds=[("epsilon_max", "lte", 3.0)]) == [remove]
    by_model = {"observer": "final_model", "bounds": [("epsilon_max", "lte", 1.5)]}
    assert ids(database, project_id, **at, **by_model) == [replace]
    assert ids(database, project_id, adjacency="replace-one") == [other_delta, replace]
    assert ids(database, project_id, sort="epsilon_max", **at) == [remove, replace]
    assert ids(database, project_id, sort="epsilon_max", observer="final_model", **at) == [
        replace,
        remove,
    ]
    assert ids(database, project_id, guarantee="heuristic") == [leakage]
    with database.read() as session:
        experiments = ExperimentRepository(session, project_id)
        found = experiments.list(ExperimentFilters(adjacency="replace-one")).items
        assert [one.id for one in found] == [other_delta, replace]


def test_the_figures_of_a_page_come_with_their_reasons(database: Database) -> None:
    project_id = project(database)
    first = add_report(database, project_id, figure("leakage_max", None), figure("accuracy", 0.5))
    second = add_report(database, project_id)
    with database.read() as session:
        found = ReportListRepository(session, project_id).figures([first, second])
    assert found[second] == []
    assert [(one.figure, one.value, one.reason) for one in found[first]] == [
        ("accuracy", 0.5, None),
        ("leakage_max", None, "unknown"),
    ]


def test_tags_names_and_times(database: Database) -> None:
    project_id = project(database)
    one = add_report(database, project_id, name="one", tags=["blue"])
    two = add_report(database, project_id, name="two", tags=["blue", "red"])
    assert ids(database, project_id, tag="blue", sort="name") == [one, two]
    assert ids(database, project_id, tag="red") == [two]
    assert ids(database, project_id, name="one") == [one]
    with database.read() as session:
        created = ExperimentRepository(session, project_id).get(two)
    assert created is not None
    assert two in ids(database, project_id, created_after=created.created_at)
    assert ids(database, project_id, finished_after=created.created_at) == []
    assert ids(database, project_id, mechanism="none") == []


def test_guarantees_in_force(database: Database) -> None:
    project_id = project(database)
    secret = add_report(database, project_id)
    simulated = add_report(database, project_id, in_force=False)
    assert ids(database, project_id, in_force=True) == [secret]
    assert ids(database, project_id, in_force=False) == [simulated]
    assert ids(database, project_id) == [simulated, secret]
