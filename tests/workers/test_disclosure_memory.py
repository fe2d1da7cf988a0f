"""Two reports on the same data do not give away what one alone would suppress."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv
import pyarrow.parquet
import pytest
from sqlalchemy import delete, insert, select

import migrations
from fedaudit.fairness.scored_groups import DisclosureDecision
from fedaudit.spec.errors import InvalidInputError
from models.database import Database
from models.repositories import FederationRepository
from models.tables.experiments import DisclosedSet, DisclosureMemory
from models.values import utc_now
from tests.training.specs import table_spec
from tests.workers.admission import (
    document_of,
    events_of,
    experiment_of,
    ran,
    spec_with,
    submit,
    with_settings,
)
from tests.workers.registering import REGISTRATION, federation_of, people, register
from workers import disclosure_memory
from workers.context import WorkerContext
from workers.disclosure_memory import decide
from workers.run_unit import run_unit

MINIMUM = 30
AGES = np.concatenate([np.arange(600) % 43 + 20, np.full(200, 90), np.full(6, 83)])
"""Six people are 83 years old; everybody else is at most 62, or 90."""


def spec(**fairness: Any) -> dict[str, Any]:
    asked = {
        "sensitive": ["age"],
        "favourable": {"op": "ge", "value": 4},
        "minimum_group_size": MINIMUM,
        "intervals": None,
        **fairness,
    }
    return table_spec(
        "ages.csv",
        ["x"],
        seed=3,
        federation__target="y",
        federation__positive=None,
        federation__validation_fraction=0.5,
        model={"kind": "linear"},
        training={"loss": "rmse", "rounds": 2, "cohort": {"clients": 4}},
        fairness=asked,
    )


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    """A table of 806 people in 31 towns."""
    order = np.random.default_rng(5).permutation(len(AGES))
    rows = [f"{row % 31},{age},{row % 7},{(3 * row) % 10}" for row, age in enumerate(AGES[order])]
    (tmp_path / "ages.csv").write_text("\n".join(["town,age,x,y", *rows, ""]))
    return tmp_path


Section = Callable[[dict[str, Any]], dict[str, Any]]
Shown = Callable[[dict[str, Any]], list[bool]]


@pytest.fixture
def section(database: Database, context: WorkerContext, sources: Path) -> Section:
    """The fairness section of a run of a spec on files of the folder, by one worker."""
    worker = with_settings(context, sources_dir=sources)

    def of(asked: dict[str, Any]) -> dict[str, Any]:
        submitted = ran(database, worker, asked, sources_dir=sources)
        found: dict[str, Any] = document_of(database, submitted)["fairness"][0]
        return found | {"submitted": submitted}

    return of


@pytest.fixture
def shown(section: Section) -> Shown:
    """Which groups a run of a spec shows."""
    return lambda asked: [not group["suppressed"] for group in section(asked)["groups"]]


def of_file(name: str, asked: dict[str, Any], **federation: Any) -> dict[str, Any]:
    return {**asked, "federation": {**asked["federation"], "path": name, **federation}}


def rewritten(line: Callable[[list[str]], str]) -> Callable[[Path], None]:
    """Writes a copy with every line made anew from its cells."""

    def write(path: Path) -> None:
        lines = path.with_name("ages.csv").read_text().splitlines()
        path.write_text("\n".join(line(one.split(",")) for one in lines))

    return write


def as_text(change: Callable[[str], str]) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        path.write_bytes(change(path.with_name("ages.csv").read_text()).encode())

    return write


def as_parquet(path: Path) -> None:
    table = pyarrow.csv.read_csv(path.with_name("ages.csv"))
    age = table.column_names.index("age")
    table = table.set_column(age, "age", table["age"].cast("float64"))
    pyarrow.parquet.write_table(table, path)


def reordered(text: str) -> str:
    head, *rows = text.splitlines()
    return "\n".join([head, *rows[::-1]])


COPIES: dict[str, Callable[[Path], None]] = {
    "newline.csv": as_text(lambda text: text + "\n"),
    "rows.csv": as_text(reordered),
    "less.csv": as_text(lambda text: text[: text[:-1].rindex("\n") + 1]),
    "columns.csv": rewritten(lambda cells: ",".join(cells[::-1])),
    "wider.csv": rewritten(lambda cells: ",".join([*cells, "z" if cells[2] == "x" else "1"])),
    "moved.csv": rewritten(
        lambda cells: ",".join([*cells[:2], cells[2] + ".001" * (cells[2] != "x"), cells[3]])
    ),
    "table.parquet": as_parquet,
}


def test_a_second_cut_of_the_same_column_discloses_nothing(database, section, shown):
    first = section(spec(edges={"age": [83]}))
    assert not any(one["suppressed"] for one in first["groups"])
    second = section(spec(edges={"age": [84]}))
    assert all(one["suppressed"] for one in second["groups"])
    assert "differ from those of an earlier report" in second["groups"][0]["reasons"]["loss"]
    assert second["metrics"]["demographic_parity_difference"]["value"] is None
    moved = second["submitted"]
    assert experiment_of(database, moved).withheld_attributes == ["age"]
    rounds = [one for kind, one in events_of(database, moved.id) if kind == "round.completed"]
    assert rounds
    assert all("demographic_parity_difference" not in one for one in rounds)
    again = section(spec(edges={"age": [83]}))
    assert again["groups"] == first["groups"], "what is disclosed already gives nothing more away"
    # A cut far from it is no difference of few rows.
    assert shown(spec(edges={"age": [40]})) == [True, True]


def test_runs_of_one_unit_are_decided_beside_each_other(database, context, sources):
    specs = [spec(edges={"age": [edge]}) for edge in (83, 84)]
    both = ran(database, with_settings(context, sources_dir=sources), *specs, sources_dir=sources)
    withheld = [experiment_of(database, both, place).withheld_attributes for place in (0, 1)]
    assert withheld == [[], ["age"]]


def test_a_copy_of_a_file_is_no_other_file(sources, section, shown):
    """The attack: another cut on a copy that differs in its bytes alone, or in few of its cells."""

    def rates(asked: dict[str, Any]) -> list[list[Any]]:
        groups = section(asked)["groups"]
        return [[one["suppressed"], one["selection_rate"], one["value"]] for one in groups]

    once = spec(edges={"age": [83]}, rounding={"base": 5})
    first = rates(once)
    assert [suppressed for suppressed, *_ in first] == [False, False]
    for name, write in COPIES.items():
        write(sources / name)
        assert shown(of_file(name, spec(edges={"age": [84]}))) == [False, False], name
    # The same people are shown again, rounded alike.
    for name in ("rows.csv", "table.parquet"):
        assert rates(of_file(name, once)) == first, name


def test_what_a_spec_makes_of_images_is_no_other_file(database, sources, shown):
    """The attack: the same archive, with one class more or turned, under another cut."""
    rows, generator = np.arange(400), np.random.default_rng(4)
    np.savez(
        sources / "faces.npz",
        x=generator.integers(0, 256, (400, 4, 4), dtype=np.uint8),
        y=rows % 3,
        writer=rows % 40,
        age=(rows * 7) % 61 + 20,
    )
    source = {"source": "images", "client_key": "writer", "validation_fraction": 0.5}
    asked = {
        **spec(edges={"age": [50]}, favourable={"op": "in", "value": [1]}),
        "federation": {**source, "path": "faces.npz", "classes": 3},
        "model": {"kind": "logistic"},
        "training": {"loss": "cross-entropy", "rounds": 1, "cohort": {"clients": 4}},
    }
    assert shown(asked) == [True, True]
    asked["fairness"] = {**asked["fairness"], "edges": {"age": [51]}}
    for other in ({"classes": 4}, {"rotate": {"probability": 0.5}}):
        assert shown(of_file("faces.npz", asked, **other)) == [False, False], other
    # What was remembered of images before their rows were numbered by the file.
    with database.write() as session:
        by_clients = hashlib.sha256(b"rows of clients").hexdigest()
        removed = delete(DisclosedSet).where(DisclosedSet.numbering != by_clients)
        assert session.execute(removed).rowcount > 0  # type: ignore[attr-defined]
    assert shown(of_file("faces.npz", asked, classes=5)) == [False, False]


def test_what_was_remembered_of_images_is_put_together(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'service.db'}"
    migrations.upgrade(url, "0035")
    database = Database(url)
    of_file = hashlib.sha256(b"rows of the file").hexdigest()
    stored = [(of_file, "a"), ("3" * 64, "a"), ("4" * 64, "a"), ("4" * 64, "b")]
    with database.write() as session:
        session.execute(insert(DisclosureMemory).values(fingerprint="f", profile_cuts={}))
        for numbering, digest in stored:
            named = {"fingerprint": "f", "numbering": numbering, "disclosed_at": utc_now()}
            bits = {"digest": digest, "bits": b"", "favourable_digest": "", "favourable_bits": b""}
            session.execute(insert(DisclosedSet).values(**named, **bits))
    migrations.upgrade(url)
    of_clients = hashlib.sha256(b"rows of clients").hexdigest()
    with database.read() as session:
        found = session.execute(select(DisclosedSet.numbering, DisclosedSet.digest)).all()
    assert {tuple(one) for one in found} == {(of_file, "a"), (of_clients, "a"), (of_clients, "b")}


def test_one_town_more_that_is_held_out_discloses_nothing(shown):
    one = spec(edges={"age": [40]})
    assert shown(one) == [True, True]
    assert shown(of_file("ages.csv", one, validation_fraction=17 / 31)) == [False, False]


def test_a_rule_that_judges_few_rows_otherwise_discloses_nothing(shown):
    # Nobody has a target between 3.5 and 4, and few have exactly 4.
    for value, all_shown in ((4, True), (3.5, True), (4.1, False)):
        asked = spec(edges={"age": [40]}, favourable={"op": "ge", "value": value})
        assert shown(asked) == [all_shown, all_shown], value


def test_an_attribute_is_withheld_with_its_intersections_and_alone(database, section):
    section(spec(edges={"age": [83]}))
    asked = spec(
        sensitive=["x", "age"], edges={"age": [84], "x": [3]}, intersections=[["x", "age"]]
    )
    of_x = section(asked)
    assert not any(one["suppressed"] for one in of_x["groups"])
    assert experiment_of(database, of_x["submitted"]).withheld_attributes == ["age", "x_age"]


@pytest.mark.parametrize("earlier", [[], [40]], ids=["first", "beside others"])
def test_a_report_that_another_overtakes_is_decided_anew(
    database, context, sources, shown, monkeypatch, earlier
):
    COPIES["rows.csv"](sources / "rows.csv")
    for age in earlier:
        shown(spec(edges={"age": [age]}))

    def overtaken(*asked: Any) -> DisclosureDecision:
        decided = decide(*asked)
        assert not decided.withheld
        monkeypatch.setattr(disclosure_memory, "decide", decide)
        other = with_settings(context, sources_dir=sources)
        first = ran(database, other, spec(edges={"age": [83]}), sources_dir=sources)
        [section] = document_of(database, first)["fairness"]
        assert not any(group["suppressed"] for group in section["groups"])
        return decided

    monkeypatch.setattr(disclosure_memory, "decide", overtaken)
    assert shown(of_file("rows.csv", spec(edges={"age": [84]}))) == [False, False]


def test_simulated_noise_on_counts_replaces_neither_minima_nor_memory(database, section):
    noise = {"mechanism": "discrete-laplace", "epsilon": 1.0, "unit": "record"}

    def sizes(privacy: str, *edges: int) -> list[int | None]:
        asked = spec(edges={"age": [*edges]}, noise=noise)
        found = section({**asked, "privacy": {"mechanism": "none", "noise": privacy}})
        utility = document_of(database, found["submitted"])["utility"]
        whole = all(group["rows"] is not None for group in found["groups"])
        assert (utility["prediction_share"] is not None) == whole
        return [group["rows"] for group in found["groups"]]

    assert None not in sizes("simulation", 83)
    assert sizes("simulation", 84) == [None, None], "six people more than in the report before"
    assert None in sizes("simulation", 83, 84)
    assert None not in sizes("release", 83, 84), "which is within its epsilon"


def test_generated_data_are_not_remembered(database: Database, context: WorkerContext) -> None:
    submitted = ran(database, context)
    assert experiment_of(database, submitted).withheld_attributes is None


def test_rows_that_an_earlier_report_counted_are_not_left_out_later(
    database, context, sources, shown
):
    """Both reports' accuracy and loss together would be those of the rows between."""
    ages = {"edges": {"age": [60, 83, 84]}}
    shown(spec(**ages))
    (sources / "other.csv").write_text((sources / "ages.csv").read_text() + "\n")
    left_out = {"exclude": {"age": ["83 to <84"]}}
    for name in ("ages.csv", "other.csv"):
        waiting = submit(database, of_file(name, spec(**ages)), sources_dir=sources)
        row = experiment_of(database, waiting)
        with database.write() as session:
            federations = FederationRepository(session, row.project_id)
            federations.set_disclosure(row.federation_id, left_out)
    for name, least in (("ages.csv", MINIMUM), ("other.csv", MINIMUM), ("ages.csv", 9999)):
        # The totals are published even where every group is too small to be.
        asked = of_file(name, spec(**ages, **left_out, minimum_group_size=least))
        worker = with_settings(context, sources_dir=sources)
        found = experiment_of(database, ran(database, worker, asked, sources_dir=sources))
        assert found.status_reason == "invalid-data"
        assert "/fairness/exclude" in (found.status_detail or "")
        assert "counted nearly the same rows" in (found.status_detail or "")


def test_joined_values_are_known_by_what_the_data_hold(sources, section, shown):
    """What a group is called makes no known person new, in another file neither."""
    named = {"age": "age", "83": "few", "90": "old"}
    write = rewritten(lambda cells: ",".join([cells[0], named.get(cells[1], "young"), *cells[2:]]))
    for name in ("first.csv", "second.csv"):
        write(sources / name)
    with (sources / "second.csv").open("a") as file:
        file.write("\n\n")
    joined: dict[str, Any] = {"groups": {"age": {"rest": ["few", "old"]}}}
    first = section(of_file("first.csv", spec(**joined)))
    assert [one["value"] for one in first["groups"]] == ["rest", "young"]
    assert not any(one["suppressed"] for one in first["groups"])
    other = {"groups": {"age": {"rest": ["few", "young"]}}}
    for name in ("first.csv", "second.csv"):
        assert not any(shown(of_file(name, spec(**other)))), name


@pytest.mark.parametrize(
    "order", [("district", "region"), ("region", "district"), ("road", "district", "region")]
)
def test_a_region_less_its_districts_is_no_one(sources, section, order):
    """The attack: a region, less its districts that another report shows, is the few. A road that
    has the few and part of a district covers nothing up."""
    head, *lines = (sources / "ages.csv").read_text().splitlines()
    table = [head + ",district,region,road"]
    for place, line in enumerate(lines):
        district = "few" if line.split(",")[1] == "83" else "aaabbbccdd"[place % 10]
        region = "south" if district in "cd" else "north"
        road = "main" if district == "few" or place % 10 == 0 else "other"
        table.append(f"{line},{district},{region},{road}")
    (sources / "regions.csv").write_text("\n".join(table))
    *earlier, last = (section(of_file("regions.csv", spec(sensitive=[one]))) for one in order)
    values = {one["value"] for of in earlier for one in of["groups"] if not one["suppressed"]}
    assert values >= ({"north", "south"} if order[0] == "region" else {"a", "b"})
    assert all(one["suppressed"] for one in last["groups"])


SPEC = spec_with(
    federation=REGISTRATION["federation"],
    model={"kind": "linear"},
    training__rounds=2,
    fairness={"sensitive": ["sex"], "intervals": None, "minimum_group_size": 10},
)


def test_a_report_names_the_policy_under_which_it_was_admitted(database, context, tmp_path):
    context = with_settings(context, sources_dir=tmp_path)
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
        assert stated in " ".join(document_of(database, submitted)["limits"])


def test_a_worker_asks_the_map_for_what_was_admitted_before(database, context, tmp_path):
    (tmp_path / "map.yaml").write_text("people.csv: [another]")
    (tmp_path / "people.csv").write_bytes(people(300))
    context = with_settings(context, sources_dir=tmp_path, sources_map=tmp_path / "map.yaml")
    submitted = ran(database, context, SPEC, sources_dir=tmp_path)
    row = experiment_of(database, submitted)
    assert (row.status, row.status_reason) == ("failed", "invalid-data")
    assert "there is no file 'people.csv'" in str(row.status_detail)
    registered = register(database, people(300))
    run_unit(context, registered.unit_id)
    profiled = federation_of(database, registered)
    assert profiled.status == "rejected"
    assert "there is no file 'people.csv'" in str(profiled.reasons)
