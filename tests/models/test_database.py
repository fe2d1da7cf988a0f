"""Databases: urls, transactions and what may be written where."""

import os
from contextlib import closing

import pytest
from sqlalchemy import select, text
from sqlalchemy.exc import DBAPIError, OperationalError

from benchmarks.servers import free_port
from models.database import Database
from models.repositories import ApiKeyRepository, IdempotencyRepository, ProjectRepository
from models.tables.accounts import Project
from tests.models.rows import add_project, at_once


def test_a_write_is_committed_and_a_failed_one_is_not(database: Database) -> None:
    with database.write() as session:
        ProjectRepository(session).get_or_create("kept")

    def abandoned() -> None:
        with database.write() as session:
            ProjectRepository(session).get_or_create("lost")
            raise RuntimeError("abandoned")

    with pytest.raises(RuntimeError, match="abandoned"):
        abandoned()
    with database.read() as session:
        assert session.scalars(select(Project.name)).all() == ["kept"]


def test_a_glance_is_no_transaction_and_leaves_none_out(postgres_url: str) -> None:
    with closing(Database(postgres_url)) as database:
        with database.autocommit_read() as session:
            # In a transaction that was begun before, the statement is later than its beginning.
            assert session.scalar(text("SELECT now() = statement_timestamp()"))
        with database.write() as session:
            ProjectRepository(session).get_or_create("glanced")
            session.rollback()
        with database.autocommit_read() as session:
            assert session.scalar(text("SELECT count(*) FROM projects")) == 0


def test_a_connection_that_ended_while_it_was_not_used_is_replaced(postgres_url: str) -> None:
    asked = text("SELECT pg_backend_pid()")
    with closing(Database(postgres_url)) as database, closing(Database(postgres_url)) as other:
        with database.read() as session:
            first = session.scalar(asked)
        with other.write() as session:
            session.execute(text("SELECT pg_terminate_backend(:pid, 5000)"), {"pid": first})
        with database.read() as session:
            assert session.scalar(asked) != first


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("sqlite://", "needs a file"),
        ("sqlite:///:memory:", "needs a file"),
        ("mysql://host/name", "'mysql' is not supported"),
    ],
)
def test_a_database_that_cannot_be_used_is_named(url: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Database(url)


def test_writers_wait_for_each_other(database: Database) -> None:
    """Each reads and then writes: without the lock taken first, SQLite would refuse some."""
    with database.write() as session:
        session.execute(text("CREATE TABLE counter (value INTEGER)"))
        session.execute(text("INSERT INTO counter VALUES (0)"))

    def add(_: int) -> None:
        lock = " FOR UPDATE" if database.dialect == "postgresql" else ""
        for _ in range(20):
            with database.write() as session:
                value = session.scalar(text(f"SELECT value FROM counter{lock}"))
                session.execute(text("UPDATE counter SET value = :v"), {"v": value + 1})

    at_once(add, 4)
    with database.read() as session:
        assert session.scalar(text("SELECT value FROM counter")) == 80
    with database.write() as session:
        session.execute(text("DROP TABLE counter"))


def test_a_database_that_is_away_is_an_error_and_not_a_wait() -> None:
    database = Database(f"postgresql://nobody@127.0.0.1:{free_port()}/none")
    with pytest.raises(OperationalError), database.read() as session:
        session.execute(select(1))
    database.close()


def test_postgres_ends_a_transaction_whose_client_froze(postgres_url: str) -> None:
    """Also one of which half a message has arrived, which no idle timeout would end."""
    frozen, other = Database(postgres_url, transaction_seconds=0.3), Database(postgres_url)
    lock = text("LOCK TABLE projects IN EXCLUSIVE MODE")

    def freeze_half_way_through_a_message() -> None:
        with frozen.write() as session:
            session.execute(lock)
            driver = session.connection().connection.dbapi_connection
            os.write(driver.pgconn.socket, b"Q" + (1000).to_bytes(4, "big") + b"SELECT")
            with other.write() as waiting:
                waiting.execute(lock)
            session.execute(text("SELECT 1"))

    with pytest.raises(OperationalError, match="timeout"):
        freeze_half_way_through_a_message()
    # An outage like any other: the next attempt is served.
    with frozen.write() as session:
        assert session.scalar(text("SELECT 1")) == 1
    frozen.close()
    other.close()


def test_errors_do_not_reveal_what_was_stored(database: Database) -> None:
    with pytest.raises(DBAPIError) as raised, database.write() as session:
        session.execute(text("INSERT INTO nowhere (counts) VALUES (:counts)"), {"counts": 4711})
    assert "nowhere" in str(raised.value)
    assert "4711" not in str(raised.value)


def test_of_simultaneous_repeats_one_does_the_work(database: Database) -> None:
    with database.write() as session:
        project_id = add_project(session)
        scopes = ["experiments:read"]
        key, _ = ApiKeyRepository(session).create(project_id=project_id, name="ci", scopes=scopes)

    def take(_: int) -> bool:
        request = {"route": "POST /v1/experiments", "key": "k", "body_hash": "a" * 64}
        with database.write() as session:
            return IdempotencyRepository(session).add(
                project_id=project_id, api_key_id=key.id, resource_id="x", **request
            )

    assert sorted(at_once(take, 6)) == [False] * 5 + [True]
