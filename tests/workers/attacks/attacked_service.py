"""What tests do with a service that attacks: a worker's attempt, and what it left."""

import json
from typing import Any

from models.repositories import (
    EventRepository,
    FederationRepository,
    LaterAttacksRepository,
    UnitRepository,
)
from models.tables.experiments import LaterAttacks
from tests.api.service import Api, body_of, spec
from tests.attacks.doubles import ATTACK
from tests.workers.serving import worker_of
from workers.run_unit import run_unit

_TABLE = {"source": "table", "client_key": "who", "target": "y"}
TABLE_FAIRNESS = {
    "sensitive": ["sex"],
    "favourable": {"op": "ge", "value": 4},
    "minimum_group_size": 2,
}
ATTACKED = spec(attacks=[ATTACK], training={"rounds": 3})


def work_later(api: Api, later_id: str) -> dict[str, Any]:
    """One attempt of a worker at attacks on an ended experiment; the request as it then is."""
    row = stored_later(api, later_id)
    run_unit(worker_of(api), row.unit_id)
    return later_of(api, row.experiment_id, later_id)


def stored_later(api: Api, later_id: str) -> LaterAttacks:
    """The request as it is stored."""
    with api.database.read() as session:
        row = LaterAttacksRepository(session, api.project_id).get(later_id)
    assert row is not None
    return row


def give_back(api: Api, unit_id: str) -> None:
    """What the sweeper does once the lease of a lost worker has run out."""
    with api.database.write() as session:
        units = UnitRepository(session)
        unit = units.get(unit_id)
        units.release(unit.id, unit.fence, count_attempt=True)


def later_of(api: Api, experiment_id: str, later_id: str) -> dict[str, Any]:
    """The request as its readers see it."""
    answer = api.get(f"/v1/experiments/{experiment_id}/attacks/later/{later_id}")
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


def ask(api: Api, experiment_id: str, *attacks: dict[str, Any], **options: Any) -> Any:
    """The answer to a request for attacks on an ended experiment."""
    body = {"attacks": list(attacks)}
    return api.post(f"/v1/experiments/{experiment_id}/attacks", json=body, **options)


def attack_later(api: Api, experiment_id: str, *attacks: dict[str, Any]) -> dict[str, Any]:
    """The request once a worker has carried it out."""
    body = body_of(ask(api, experiment_id, *attacks), 202)
    return work_later(api, body["id"])


def report_of(api: Api, experiment_id: str) -> dict[str, Any]:
    """The report that was signed."""
    found: dict[str, Any] = api.get(f"/v1/experiments/{experiment_id}/report.json").json()
    return found


def events_of(api: Api, experiment_id: str) -> list[str]:
    """Its events about attacks, in order."""
    with api.database.read() as session:
        events = EventRepository(session).after(experiment_id)
    return [one.type for one in events if one.type.startswith(("attack", "alarm"))]


def upload(api: Api, *, slope: int) -> dict[str, Any]:
    """A table of twelve clients, registered and profiled: as a spec names it."""
    lines = [f"k{row % 12},{'FM'[row // 12 % 2]},{row % 7},{slope * row % 5}" for row in range(240)]
    described = {"name": "clinics", "federation": _TABLE, "fairness": TABLE_FAIRNESS}
    answer = api.post(
        "/v1/federations",
        files=[
            ("registration", (None, json.dumps(described), "application/json")),
            ("file", ("clinics.csv", "\n".join(["who,sex,x,y", *lines, ""]), "text/csv")),
        ],
    )
    assert answer.status_code in (200, 202), answer.text
    id_ = answer.json()["id"]
    with api.database.read() as session:
        found = FederationRepository(session, api.project_id).get(id_)
    assert found.unit_id is not None
    run_unit(worker_of(api), found.unit_id)
    return {**_TABLE, "id": id_, "validation_fraction": 0.25}
