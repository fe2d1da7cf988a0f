"""Cancelling a sweep: what it leaves, how many statements it takes, and that nothing waits for it
in a circle."""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import select, text, update

from models.repositories import ExperimentRepository, UnitRepository
from models.tables.experiments import Event, Experiment, Unit
from models.tables.federations import Federation
from models.tables.ledger import Reservation
from tests.api.budgets.test_epsilon_budgets import central
from tests.api.service import Api, body_of, running_api, settings_for, spec, statements
from tests.waiting import wait_until

KINDS = {"laplace": spec(privacy={"radius": 1.0, "clip": 0.5}), "gaussian": central()}


def submitted(api: Api, base: dict[str, Any], cells: int, *, name: str = "many") -> dict[str, Any]:
    grid = {"tags": [[f"{name} {number}"] for number in range(cells)]}
    asked = {"name": name, "base": base, "grid": grid}
    return dict(body_of(api.post("/v1/sweeps", json=asked), 202))


def cells_of(sweep: dict[str, Any]) -> list[str]:
    return [cell["experiment_id"] for cell in sweep["cells"]]


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
    told = api.get("/v1/audit-log").json()["items"]
    assert ("sweep.cancelled", together["id"]) in [(one["action"], one["subject"]) for one in told]


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
