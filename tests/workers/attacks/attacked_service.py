"""What tests do with a service that attacks: a worker's attempt, and what it left."""

from typing import Any

from models.repositories import EventRepository, LaterAttacksRepository, UnitRepository
from models.tables.experiments import LaterAttacks
from tests.api.service import Api, body_of, spec
from tests.attacks.doubles import ATTACK
from tests.workers.serving import worker_of
from tests.workers.test_erasure import FEDERATION, register
from workers.run_unit import run_unit

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
    content = "\n".join(["who,sex,x,y", *lines, ""]).encode()
    id_ = register(api, worker_of(api), content)
    return {**FEDERATION, "id": id_, "validation_fraction": 0.25}
