"""Sweeps through the interface: all cells or none, what they cost together, their table."""

import csv
import io
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import select, text, update

from fedaudit.privacy.accounting.accountant import composed_epsilon
from models.repositories import Budgets, ExperimentRepository, UnitRepository
from models.tables.experiments import Event, Experiment, Report, Unit
from models.tables.federations import Federation
from models.tables.ledger import Reservation
from tests.api.budgets.test_epsilon_budgets import DELTA, central, plan_of, set_total
from tests.api.service import Api, body_of, finish, running_api, settings_for, spec, statements
from tests.models.rows import at_once
from tests.waiting import wait_until

NU, K = "privacy.noise_multiplier", "training.hypotheses"
ALIKE = {"tags": [["a"], ["b"], ["c"], ["d"]]}
"""Cells that spend alike on the same people; another seed would make up others."""


def sweep(base: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    made = {"name": "nu and k", "base": base or spec(), "grid": {NU: [1, 3], K: [1, 2]}}
    return {**made, **changes}


def submit(api: Api, value: dict[str, Any], **options: Any) -> dict[str, Any]:
    response = api.post("/v1/sweeps", json=value, **options)
    made = body_of(response, 202)
    assert response.headers["Location"] == f"/v1/sweeps/{made['id']}"
    return dict(made)


def cells_of(made: dict[str, Any]) -> list[str]:
    return [cell["experiment_id"] for cell in made["cells"]]


def costs_of(api: Api, made: dict[str, Any]) -> Any:
    return api.get(f"/v1/sweeps/{made['id']}").json()["costs"]


def test_every_combination_is_an_experiment(api: Api) -> None:
    made = submit(api, sweep(repeats=2))
    values = [cell["values"] for cell in made["cells"]]
    every = [{NU: nu, K: k, "seed": seed} for nu in (1, 3) for k in (1, 2) for seed in (7, 8)]
    assert values == every
    for id_, cell in zip(cells_of(made), values, strict=True):
        found = api.stored(id_)
        varied = [found.spec["privacy"]["noise_multiplier"], found.spec["training"]["hypotheses"]]
        assert ([*varied, found.spec["seed"]], found.status) == ([*cell.values()], "queued")
    assert (made["status"], made["progress"]["statuses"]) == ("queued", {"queued": 8})
    assert made.pop("warnings") == []
    assert api.get(f"/v1/sweeps/{made['id']}").json() == made
    [listed] = api.get("/v1/sweeps").json()["items"]
    assert listed == {name: made[name] for name in listed}
    log = api.get("/v1/audit-log").json()["items"]
    assert ("sweep.submitted", made["id"]) in [(one["action"], one["subject"]) for one in log]


def test_values_side_by_side_and_ranges(api: Api) -> None:
    grid = {NU: {"start": 1, "stop": 4, "count": 3, "scale": "log"}}
    made = submit(api, sweep(grid=grid, zip={K: [1, 2], "training.rounds": [5, 6]}))
    found = [tuple(cell["values"].values()) for cell in made["cells"]]
    assert found == [(nu, *side) for nu in (1, 2, 4) for side in ((1, 5), (2, 6))]


FROM_0 = {"start": 0, "stop": 1, "count": 2, "scale": "log"}


FAULTY: tuple[tuple[dict[str, Any], str, str], ...] = (
    ({"grid": {NU: [1, -1]}}, f"/grid/{NU}", "with -1: must be greater than 0"),
    ({"grid": {"training.nope": [1]}}, "/grid/training.nope", "unknown field"),
    ({"grid": {"seed.x": [1]}}, "/grid/seed.x", "has no place in the base"),
    ({"grid": {NU: []}}, f"/grid/{NU}", "at least 1 item"),
    ({"grid": {NU: [1, 3, 1.0]}}, f"/grid/{NU}", "has 1.0 twice"),
    ({"grid": {"": [1]}}, "/grid/", "is empty"),
    ({"grid": {NU: FROM_0}}, f"/grid/{NU}", "above 0"),
    ({"grid": {"repeats": [2, 3]}}, "/grid/repeats", "cannot vary"),
    ({"zip": {NU: [1]}}, f"/zip/{NU}", "varies in `grid` as well"),
    ({"zip": {"a": [1], "b": [1, 2]}}, "/zip/a", "has values: 1, and another field 2"),
    ({"grid": {"seed": [1]}, "repeats": 2}, "/repeats", "the seeds vary already"),
    ({"grid": {"seed": list(range(1000))}, "zip": {NU: [1, 2]}}, "/grid", "2000 cells"),
    ({"base": {"name": "x"}}, "/base/model", "is required"),
)


def test_a_faulty_sweep_is_refused_where_it_is_faulty(api: Api) -> None:
    with api.unchanged():
        for changes, where, says in FAULTY:
            faults = body_of(api.post("/v1/sweeps", json=sweep(**changes)), 422)["errors"]
            found = {one["pointer"]: one["message"] for one in faults}
            assert says in found.get(where, ""), found


def test_the_whole_sweep_is_reserved_or_nothing(api_on_both: Api) -> None:
    api = api_on_both
    value = sweep(central(), grid=ALIKE)
    plan = plan_of(central())
    federation_id = api.submit(central())["federation_id"]
    total = composed_epsilon(4 * plan.curve("final_model", plan.steps), DELTA)
    set_total(api, federation_id, total)
    with api.unchanged():
        checked = api.post("/v1/sweeps?validate_only=true", json=value).json()
        assert (checked["has_room"], checked["cells"]) == (False, 4)
        problem = body_of(api.post("/v1/sweeps", json=value), 409)
        assert problem["type"].endswith("/budget-exhausted")
        # Three of four would have had room.
        assert problem["detail"].startswith("cell 4 of 4 is refused, and so is the sweep")
        assert problem["detail"] == checked["detail"]
        fits = sweep(central(), grid={"tags": [["a"], ["b"], ["c"]]})
        assert api.post("/v1/sweeps?validate_only=true", json=fits).json()["has_room"] is True
    submit(api, fits)


def test_it_costs_what_all_cells_cost_together(api: Api) -> None:
    made = submit(api, sweep(central(), grid=ALIKE))
    plan = plan_of(central())
    entries = {one["observer"]: one for one in made["costs"]["epsilon"]}
    for observer in plan.observers:
        curve = plan.curve(observer, plan.steps)
        assert entries[observer]["value"] == pytest.approx(composed_epsilon(4 * curve, DELTA))
        assert entries[observer]["cell_max"] == pytest.approx(plan.largest(observer, plan.steps))
        assert entries[observer]["value"] > entries[observer]["cell_max"]
    assert set(made["costs"]["reasons"]) == {"leakage", "log_ratio_max"}
    # Cells that end unrun give back what they had reserved.
    api.post(f"/v1/sweeps/{made['id']}/cancel")
    after = api.get(f"/v1/sweeps/{made['id']}").json()
    assert (after["status"], after["costs"]["epsilon"][0]["value"]) == ("cancelled", 0.0)


def test_what_nothing_composes_has_no_figure(api: Api) -> None:
    unprotected = {**spec(gates=[]), "privacy": {"mechanism": "none"}}
    for base, grid, names in (
        (unprotected, {K: [1, 2]}, ["epsilon"]),
        (central(), {"privacy.mechanism": ["gaussian-central", "gaussian-local"]}, ["epsilon"]),
        (spec(), {"privacy.radius": ["adaptive", 0.5]}, ["leakage", "log_ratio_max"]),
    ):
        costs = submit(api, sweep(base, grid=grid))["costs"]
        assert [name for name in names if costs[name] or not costs["reasons"][name]] == []


def test_leakage_of_equal_terms_adds_up(api: Api) -> None:
    fixed = {"radius": 0.5, "clip": 0.25}
    costs = submit(api, sweep(spec(privacy=fixed, gates=[]), grid={NU: [1, 4]}))["costs"]
    cells = [spec(privacy={**fixed, "noise_multiplier": nu}, gates=[]) for nu in (1, 4)]
    each = [api.check(cell).json()["projection"] for cell in cells]
    assert costs["leakage"] == pytest.approx(sum(one["leakage_worst_case"] for one in each))
    assert costs["log_ratio_max"] == pytest.approx(sum(one["log_ratio_worst_case"] for one in each))


def test_a_repeated_request_makes_one_sweep(api: Api) -> None:
    again = {"headers": {"Idempotency-Key": "once"}}
    assert len({submit(api, sweep(), **again)["id"] for _ in range(2)}) == 1
    assert api.counts()["experiments"] == 4
    assert api.post("/v1/sweeps", json=sweep(repeats=2), **again).status_code == 409


def test_failed_and_cancelled_cells_are_tried_again_and_stay_paid_for(api: Api) -> None:
    made = submit(api, sweep(grid={"tags": [["a"], ["b"], ["c"]]}))
    first, second, third = cells_of(made)
    finish(api, first)
    api.post(f"/v1/experiments/{second}/cancel")
    path = f"/v1/sweeps/{made['id']}"
    assert api.get(path).json()["status"] == "running"
    before = costs_of(api, made)["leakage"]
    body = body_of(api.post(f"{path}/retry"), 202)
    again = cells_of(body)[1]
    assert cells_of(body) == [first, again, third]
    assert api.stored(again).retry_of == second != again
    # A cell by itself would leave the sweep, and its costs.
    alone = body_of(api.post(f"/v1/experiments/{second}/retry"), 409)
    assert alone["sweep_id"] == made["id"]
    assert body["costs"]["leakage"] > before > 0
    asked = ["retry", "cancel", "cancel"]
    assert [api.post(f"{path}/{one}").status_code for one in asked] == [409, 200, 409]


def test_a_run_that_ended_early_counts_with_all_planned_rounds(api: Api) -> None:
    made = submit(api, sweep(central(), grid=ALIKE))
    before = costs_of(api, made)
    with api.database.write() as session:
        budgets = Budgets(session, api.project_id)
        ends = ("succeeded", "cancelled", "failed")
        for id_, status in zip(cells_of(made), ends, strict=False):
            held = budgets.held(id_, "epsilon")
            budgets.settle_epsilon(held, {one.observer: 1 for one in held})
            session.get_one(Experiment, id_).status = status
    assert costs_of(api, made) == before
    # What never began released nothing.
    api.post(f"/v1/experiments/{cells_of(made)[3]}/cancel")
    plan = plan_of(central())
    entries = costs_of(api, made)["epsilon"]
    [of_model] = [one for one in entries if one["observer"] == "final_model"]
    planned = plan.curve("final_model", plan.steps)
    assert of_model["value"] == pytest.approx(composed_epsilon(3 * planned, DELTA))


def test_a_sweep_whose_cell_passed_on_its_costs_is_not_tried_again(api: Api) -> None:
    gates = [{"figure": "sweep_log_ratio_max", "op": "le", "value": 1e9}]
    made = submit(api, sweep(spec(gates=gates), grid={"tags": [["a"], ["b"]]}))
    first, second = cells_of(made)
    finish(api, first)
    api.post(f"/v1/experiments/{second}/cancel")
    with api.database.write() as session:
        report = session.get_one(Report, first)
        [judged] = report.document["gates"]
        report.document = {**report.document, "gates": [{**judged, "outcome": "pass"}]}
    refused = body_of(api.post(f"/v1/sweeps/{made['id']}/retry"), 409)
    assert "the report of cell 1 passed a gate" in refused["detail"]


def test_a_policy_is_held_to_what_the_sweep_has_reserved_by_now(api: Api) -> None:
    """Cancel all cells but one, and its report states little; then try the others again."""
    fixed = {"radius": 1, "clip": 0.5, "noise": "release"}
    made = submit(api, sweep(spec(privacy=fixed, gates=[]), grid=ALIKE))
    first, *others = cells_of(made)
    for other in others:
        api.post(f"/v1/experiments/{other}/cancel")
    finish(api, first)
    of_one = costs_of(api, made)["log_ratio_max"]
    section = {
        **dict.fromkeys(("sweep_epsilon_max", "sweep_leakage")),
        **{"epsilon": [], "noises": ["release"], "guarantees": ["formal"], "conditions": []},
        **{"sweep_log_ratio_max": of_one, "reasons": {}, "id": made["id"], "name": "grid"},
        **{"cells": 2, "position": 0, "values": {}},
    }
    with api.database.write() as session:
        report = session.get_one(Report, first)
        guarantee = {**report.document["guarantee"], "kind": "formal", "conditions": {}}
        report.document = {**report.document, "guarantee": guarantee, "sweep": section}
    gate = {"figure": "sweep_log_ratio_max", "op": "le", "value": of_one}
    asked = {"experiment_id": first, "gates": [gate]}
    assert api.post("/v1/gates/evaluations", json=asked).json()["outcome"] == "pass"
    assert api.post(f"/v1/sweeps/{made['id']}/retry").status_code == 202
    [found] = api.post("/v1/gates/evaluations", json=asked).json()["gates"]
    assert (found["outcome"], found["value"]) == ("fail", costs_of(api, made)["log_ratio_max"])
    assert found["value"] > of_one
    assert "as charged or reserved by now" in found["reason"]


def table_of(api: Api, made: dict[str, Any]) -> Any:
    return body_of(api.get(f"/v1/sweeps/{made['id']}/table"))


def test_the_table_over_seeds_compares_no_cost_that_an_attack_contradicts(api: Api) -> None:
    """What its page shows is in tests/api/pages/test_sweep_pages.py."""
    made = submit(api, sweep(grid={NU: [1, 3]}, repeats=2))
    for id_ in cells_of(made):
        finish(api, id_, validation_loss=1.0)
    table = table_of(api, made)
    rows = [(row["values"], row["succeeded"]) for row in table["rows"]]
    assert rows == [({NU: 1}, 2), ({NU: 3}, 2)]
    assert "leakage_max" in table["front_figures"]
    assert "equalized_odds_difference[group]" in table["figures"]
    path = f"/v1/sweeps/{made['id']}/table"
    text = api.get(path, headers={"Accept": "text/csv"}).text
    assert [line[NU] for line in csv.DictReader(io.StringIO(text))] == ["1", "3"]
    markdown = api.get(path, headers={"Accept": "text/markdown"}).text
    assert NU in markdown.splitlines()[0]
    assert "look better than they are" in markdown
    assert api.get("/v1/sweeps/unknown/table").status_code == 404
    api.change(update(Experiment).values(alarms=1))
    table = table_of(api, made)
    assert "leakage_max" not in table["front_figures"]
    assert any("is contradicted by an attack" in note for note in table["notes"])


@pytest.mark.parametrize(
    ("path", "values"),
    [("privacy.noise", ["simulation", "release"]), ("privacy.radius", ["adaptive", 0.5])],
)
def test_costs_that_mean_something_else_are_not_compared(api, path, values):
    """A smaller figure under weaker terms is no better one."""
    made = submit(api, sweep(grid={path: values}, repeats=2))
    for cell in made["cells"]:
        finish(api, cell["experiment_id"], validation_loss=1.0 + cell["position"] // 2)
    table = table_of(api, made)
    assert not any(row["figures"]["leakage_max"]["best"] for row in table["rows"])
    assert "leakage_max" not in table["front_figures"]
    assert any("the costs of the cells do not mean the same" in note for note in table["notes"])


def test_cells_that_two_processes_try_again_at_once_are_tried_once(postgres_url, tmp_path):
    settings = settings_for(postgres_url, tmp_path)
    with running_api(settings) as one, running_api(settings) as other:
        made = submit(one, sweep(grid=ALIKE))
        path, former = f"/v1/sweeps/{made['id']}", cells_of(made)
        assert one.post(f"{path}/cancel").status_code == 200
        before = one.counts()["experiments"]
        answers = at_once(lambda number: (one, other)[number].post(f"{path}/retry"), 2)
        assert sorted(answer.status_code for answer in answers) == [202, 409]
        assert one.counts()["experiments"] == before + len(former)
        newest = cells_of(one.get(path).json())
        assert [one.stored(id_).retry_of for id_ in newest] == former


# -- cancelling a sweep ---------------------------------------------------------------------------

KINDS = {"laplace": spec(privacy={"radius": 1.0, "clip": 0.5}), "gaussian": central()}


def submitted(api: Api, base: dict[str, Any], cells: int, *, name: str = "many") -> dict[str, Any]:
    grid = {"tags": [[f"{name} {number}"] for number in range(cells)]}
    return submit(api, sweep(base, grid=grid))


def left(api: Api, sweep: dict[str, Any]) -> list[Any]:
    """All that the end of its cells wrote, but ids and times."""
    ids = cells_of(sweep)
    with api.database.read() as session:
        experiments = session.scalars(select(Experiment).where(Experiment.id.in_(ids))).all()
        events = session.scalars(select(Event).where(Event.experiment_id.in_(ids))).all()
        held = session.scalars(select(Reservation).where(Reservation.experiment_id.in_(ids))).all()
        units = select(Unit.state).where(Unit.id.in_([one.unit_id for one in experiments]))
        states = session.scalars(units).all()
    settled = ("figure", "observer", "state", "spent", "compositions")
    return [
        [(one.status, one.status_reason, one.cancelled_by) for one in experiments],
        sorted((one.sequence, one.type, str(one.data)) for one in events),
        sorted((*(getattr(one, name) for name in settled), str(one.curve)) for one in held),
        sorted(states),
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_it_leaves_what_cancelling_every_cell_leaves(api_on_both: Api, kind: str) -> None:
    api = api_on_both
    together, one_by_one = (submitted(api, KINDS[kind], 3, name=name) for name in ("a", "b"))
    for id_ in cells_of(one_by_one):
        assert api.post(f"/v1/experiments/{id_}/cancel").status_code == 200
    assert api.post(f"/v1/sweeps/{together['id']}/cancel").status_code == 200
    assert left(api, together) == left(api, one_by_one)
    assert left(api, together)[-1] == ["cancelled"] * 3
    assert {state for _, _, state, *_ in left(api, together)[2]} == {"settled"}
    log = api.get("/v1/audit-log").json()["items"]
    assert ("sweep.cancelled", together["id"]) in [(one["action"], one["subject"]) for one in log]


def test_cells_that_a_worker_has_end_when_it_stops(api_on_both: Api) -> None:
    api = api_on_both
    sweep = submitted(api, KINDS["laplace"], 3)
    running, taken_back, waiting = cells_of(sweep)
    with api.database.write() as session:
        for one in (running, taken_back):
            assert ExperimentRepository(session, api.project_id).start_each([one])
        mine = Unit.id == api.stored(running).unit_id
        session.execute(update(Unit).where(mine).values(state="leased"))
    assert api.post(f"/v1/sweeps/{sweep['id']}/cancel").status_code == 200
    states = [api.stored(one).status for one in (running, taken_back, waiting)]
    assert states == ["cancelling", "cancelled", "cancelled"]
    with api.database.read() as session:
        held = session.scalars(select(Reservation).where(Reservation.state == "held")).all()
    assert {one.experiment_id for one in held} == {running}


@pytest.mark.parametrize("kind", KINDS)
def test_the_statements_do_not_grow_with_the_cells(api: Api, kind: str) -> None:
    counts = []
    for cells in (3, 40):
        sweep = submitted(api, KINDS[kind], cells)
        with statements(api) as asked:
            assert api.post(f"/v1/sweeps/{sweep['id']}/cancel").status_code == 200
        counts.append(len(asked))
    assert counts[0] == counts[1]


def test_nothing_waits_in_a_circle_beside_publishing_and_submissions(postgres_url, tmp_path):
    """Rounds of what deadlocked: units published in any order, cells admitted, a sweep cancelled.
    Postgres counts its deadlocks; each of these calls has to succeed at the first try."""
    with running_api(settings_for(postgres_url, tmp_path)) as api:
        sweeps = [submitted(api, KINDS["laplace"], 40, name=f"s{number}") for number in range(3)]
        unit_ids = [str(api.stored(id_).unit_id) for one in sweeps for id_ in cells_of(one)]
        stop = threading.Event()

        def publish(order: int) -> None:
            while not stop.is_set():
                with api.database.write() as session:
                    UnitRepository(session).mark_published(unit_ids[::order])

        with ThreadPoolExecutor(3) as pool:
            publishing = [pool.submit(publish, order) for order in (1, -1)]
            try:
                for number, sweep in enumerate(sweeps):
                    other = spec(privacy={"radius": 2.0 + number, "clip": 0.5})
                    cancelling = pool.submit(api.post, f"/v1/sweeps/{sweep['id']}/cancel")
                    submitted(api, other, 10, name=f"beside {number}")
                    cancelling.result()
            finally:
                stop.set()
        assert [one.result() for one in publishing] == [None, None]
        states = [api.get(f"/v1/sweeps/{one['id']}").json()["status"] for one in sweeps]
        assert states == ["cancelled"] * 3
        with api.database.read() as session:
            session.execute(text("SELECT pg_stat_force_next_flush()"))
            found = session.scalar(
                text("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
            )
        assert found == 0


def test_contents_are_locked_by_their_fingerprints_whatever_the_order_of_cells(
    postgres_url, tmp_path
):
    """The first content is locked when the sweep waits for the second, though its cell is last."""
    field = "federation.rows_per_client"

    def swept(api: Api, rows: list[int]) -> Any:
        asked = {"name": "rows", "base": KINDS["laplace"], "grid": {field: rows}}
        return body_of(api.post("/v1/sweeps", json=asked), 202)

    def one_waits(api: Api) -> bool:
        waiting = text(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        with api.database.read() as session:
            return session.scalar(waiting) == 1

    with running_api(settings_for(postgres_url, tmp_path)) as api:
        cells = swept(api, [10, 11])["cells"]
        rows = {api.stored(one["experiment_id"]).federation_id: one["values"] for one in cells}
        with api.database.read() as session:
            mine = select(Federation.id).where(Federation.id.in_(rows))
            first, second = session.scalars(mine.order_by(Federation.fingerprint))
        locked = select(Federation.id).with_for_update(skip_locked=True)
        with ThreadPoolExecutor(1) as pool:
            with api.database.write() as session:
                session.scalars(locked.where(Federation.id == second)).one()
                answer = pool.submit(swept, api, [rows[one][field] for one in (second, first)])
                wait_until(lambda: one_waits(api), "the sweep waits")
                assert not session.scalars(locked.where(Federation.id == first)).all()
            assert len(answer.result()["cells"]) == 2
