"""Projects, keys, repeated requests, messages and duties."""

import pytest
from sqlalchemy import select

from models.database import Database
from models.repositories import (
    ApiKeyRepository,
    IdempotencyRepository,
    OutboxRepository,
    ProjectRepository,
    SubjectSetRepository,
    SweeperLeaseRepository,
)
from models.tables.accounts import ApiKey
from tests.models.rows import add_project, at_once


def test_a_project_is_made_once(database: Database) -> None:

    def ask(_: int) -> str:
        with database.write() as session:
            return ProjectRepository(session).get_or_create("hospital").id

    ids = at_once(ask, 6)
    assert len(ids) == 6
    assert len(set(ids)) == 1


def _key(database: Database) -> tuple[str, ApiKey, str]:
    with database.write() as session:
        project_id = add_project(session)
        key, plain = ApiKeyRepository(session).create(
            project_id=project_id, name="ci", scopes=["experiments:read"]
        )
    return project_id, key, plain


def test_a_key_is_found_by_its_plain_text_which_is_not_stored(database: Database) -> None:
    project_id, key, plain = _key(database)
    with database.read() as session:
        keys = ApiKeyRepository(session)
        found = keys.find(plain)
        assert found is not None
        assert (found.id, found.project_id) == (key.id, project_id)
        assert found.scopes == ["experiments:read"]
        stored = session.execute(select(ApiKey.__table__)).one()
        assert plain not in map(str, stored)
        assert plain.startswith(key.prefix)
        for wrong in ("", "fa_", plain[:-1], plain + "x", plain.upper(), "\x00", "\ud800"):
            assert keys.find(wrong) is None


def test_a_revoked_key_is_not_found_but_listed(database: Database) -> None:
    project_id, key, plain = _key(database)
    with database.write() as session:
        keys = ApiKeyRepository(session)
        assert not keys.revoke("another", key.id)
        assert keys.find(plain) is not None
        assert keys.revoke(project_id, key.id)
        assert not keys.revoke(project_id, key.id)
        assert keys.find(plain) is None
        assert [row.revoked_at is not None for row in keys.list(project_id)] == [True]
        assert keys.list("another") == []


def _take(database: Database, api_key_id: str, project_id: str, **changes: str) -> bool:
    values = {"route": "POST /v1/experiments", "key": "k", "body_hash": "a" * 64, **changes}
    with database.write() as session:
        return IdempotencyRepository(session).add(
            project_id=project_id, api_key_id=api_key_id, **values
        )


def test_a_repeated_request_finds_the_first(database: Database) -> None:
    project_id, key, _ = _key(database)
    _, other_caller, _ = _key(database)
    assert _take(database, key.id, project_id, resource_id="e1")
    assert not _take(database, key.id, project_id, body_hash="b" * 64)
    assert _take(database, key.id, project_id, route="POST /v1/sweeps")
    assert _take(database, other_caller.id, project_id)
    with database.read() as session:
        requests = IdempotencyRepository(session)
        found = requests.find(key.id, "POST /v1/experiments", "k")
        assert found is not None
        assert (found.resource_id, found.body_hash, found.response) == ("e1", "a" * 64, None)
        assert requests.find(key.id, "POST /v1/experiments", "another") is None


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


def test_one_sweeper_holds_the_duty(database: Database) -> None:
    def acquire(holder: str, seconds: float) -> bool:
        with database.write() as session:
            return SweeperLeaseRepository(session).acquire(
                "sweep", holder=holder, lease_seconds=seconds
            )

    assert acquire("a", 30)
    assert not acquire("b", 30)
    assert acquire("a", -1)
    assert acquire("b", 30)
    assert not acquire("a", 30)
    with database.write() as session:
        duties = SweeperLeaseRepository(session)
        assert not duties.release("sweep", holder="a")
        assert duties.release("sweep", holder="b")
    assert acquire("a", 30)


def test_names_are_stored_once_in_their_order(database: Database) -> None:
    with database.write() as session:
        sets = SubjectSetRepository(session)
        first = sets.put(["b", "a", "Zürich"])
        assert sets.put(["b", "a", "Zürich"]) == first
        assert sets.put(["a", "b", "Zürich"]) != first
        assert sets.names(first) == ("b", "a", "Zürich")
        with pytest.raises(LookupError, match="there is no such set"):
            sets.names("0" * 64)
