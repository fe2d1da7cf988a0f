"""Projects, keys, repeated requests, messages and duties."""

from models.database import Database
from models.repositories import ApiKeyRepository, IdempotencyRepository, OutboxRepository
from models.tables.accounts import ApiKey
from tests.models.rows import add_project, at_once


def _key(database: Database) -> tuple[str, ApiKey, str]:
    with database.write() as session:
        project_id = add_project(session)
        key, plain = ApiKeyRepository(session).create(
            project_id=project_id, name="ci", scopes=["experiments:read"]
        )
    return project_id, key, plain


def _take(database: Database, api_key_id: str, project_id: str, **changes: str) -> bool:
    values = {"route": "POST /v1/experiments", "key": "k", "body_hash": "a" * 64}
    values |= {"resource_id": "x", **changes}
    with database.write() as session:
        return IdempotencyRepository(session).add(
            project_id=project_id, api_key_id=api_key_id, **values
        )


def test_of_simultaneous_repeats_one_does_the_work(database: Database) -> None:
    project_id, key, _ = _key(database)
    answers = at_once(lambda _: _take(database, key.id, project_id), 6)
    assert sorted(answers) == [False] * 5 + [True]


def test_messages_are_sent_in_order_and_wait_after_a_failure(database: Database) -> None:
    with database.write() as session:
        project_id = add_project(session)
        outbox = OutboxRepository(session)
        ids = [outbox.add(project_id, "unit.queued", {"unit_id": str(i)}) for i in range(4)]
    with database.write() as session:
        outbox = OutboxRepository(session)
        due = outbox.pending(3)
        assert [message.id for message in due] == ids[:3]
        assert due[0].payload == {"unit_id": "0"}
        outbox.mark_published(ids[:1])
        outbox.postpone(ids[1], 60)
    with database.write() as session:
        outbox = OutboxRepository(session)
        assert [message.id for message in outbox.pending()] == ids[2:]
        outbox.postpone(ids[1], -1)
        postponed = outbox.pending()[0]
        assert (postponed.id, postponed.attempts) == (ids[1], 2)
