"""One database, SQLite or Postgres, behind short read and write sessions."""

import sqlite3
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from functools import partial
from pathlib import Path
from select import POLLIN, poll
from time import monotonic, sleep
from typing import Any, Literal, cast

from psycopg.pq import Format
from sqlalchemy import URL, Connection, Engine, create_engine, event, inspect, make_url, text
from sqlalchemy.engine import ExceptionContext, ExecutionContext
from sqlalchemy.exc import InterfaceError, InvalidatePoolError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.orm import Session, sessionmaker

from models.arrays import from_json, register_arrays, to_json
from models.copied_rows import copy_rows

Dialect = Literal["sqlite", "postgresql"]
AWAY = (OperationalError, InterfaceError, PoolTimeoutError)
"""The database does not respond, and has refused nothing: the same may be tried again."""


def outage(error: Exception) -> dict[str, str]:
    """What a line of a log says of such an error."""
    return {"error": type(error).__name__, "detail": str(getattr(error, "orig", error))[:300]}


_BUSY_TIMEOUT_MS = 10_000
_PAUSE_SECONDS = 0.05
_TRANSACTION_SECONDS = 60.0
_TRANSACTION_TIMEOUT_SINCE = 170_000
_ENDED_AT_A_LIMIT = ("25P03", "25P04")
"""SQLSTATEs of `idle_in_transaction_session_timeout` and `transaction_timeout`."""


class Database:
    """One database: `sqlite:///PATH` (only a migration makes the file) or `postgresql://...`. Keep
    sessions short: an open reader makes SQLite's log grow, an open writer holds all others. Rows
    outlive their session as plain values; changing them changes nothing."""

    def __init__(
        self,
        url: str,
        *,
        transaction_seconds: float | None = _TRANSACTION_SECONDS,
        foreign_keys: bool = True,
    ) -> None:
        """Raises ValueError for another kind of database, or SQLite without a file. Postgres ends a
        transaction after `transaction_seconds`, as a frozen client would keep its locks; None for
        migrations. Without `foreign_keys` SQLite checks no reference."""
        parsed = _normalise(url)
        self.dialect: Dialect = cast(Dialect, parsed.get_backend_name())
        self.url = parsed
        self.engine = _create_engine(parsed, transaction_seconds, foreign_keys=foreign_keys)
        self._sessions = sessionmaker(self.engine, expire_on_commit=False)
        self.file = Path(parsed.database or "").absolute() if self.dialect == "sqlite" else None

    def read(self) -> AbstractContextManager[Session]:
        """A read-only session on one consistent state (SQLite) or one per statement (Postgres)."""
        return self._reading(postgresql_readonly=True)

    def autocommit_read(self) -> AbstractContextManager[Session]:
        """A session for one statement that reads. Postgres gets it alone, without a read-only
        transaction around it: one message instead of three."""
        return self._reading(isolation_level="AUTOCOMMIT")

    @contextmanager
    def _reading(self, **on_postgresql: Any) -> Iterator[Session]:
        sqlite = self.dialect == "sqlite"
        with self._sessions() as session:
            # Options of an engine would be set by its events, which cost at each statement.
            options = {"sqlite_begin": "DEFERRED"} if sqlite else on_postgresql
            session.connection(execution_options=options)
            yield session
            # A roll-back, with which closing it would end it, makes psycopg forget all prepared
            # statements of the connection. Nothing is written: no row is the session's any more.
            session.expunge_all()
            session.commit()

    def write(self) -> AbstractContextManager[Session]:
        """A transaction: committed when the block ends, rolled back when it raises. SQLite takes
        the write lock at once, so that no statement inside fails for it later."""
        return self._sessions.begin()

    def drop_deleted(self) -> bool:
        """Overwrites what SQLite's file and its write-ahead log still hold of deleted rows; False
        while a reader needs them. Postgres keeps such rows until it vacuums and recycles its log.
        """
        if self.dialect != "sqlite":
            return True
        with closing(self.engine.raw_connection()) as connection:
            [busy, *_] = connection.cursor().execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        return not busy

    def close(self) -> None:
        """Closes the pool's connections."""
        self.engine.dispose()


def _normalise(url: str) -> URL:
    parsed = make_url(url)
    backend = parsed.get_backend_name()
    if backend == "sqlite":
        if not parsed.database or parsed.database == ":memory:":
            raise ValueError("database url: SQLite needs a file, for example sqlite:///fedaudit.db")
        return parsed
    if backend in {"postgresql", "postgres"}:
        return parsed.set(drivername="postgresql+psycopg")
    raise ValueError(
        f"database url: {backend!r} is not supported; use sqlite:///PATH or postgresql://..."
    )


def _create_engine(url: URL, transaction_seconds: float | None, *, foreign_keys: bool) -> Engine:
    arguments: dict[str, Any] = {
        "json_serializer": to_json,
        "json_deserializer": from_json,
        # Errors are kept and shown, and rows hold counts of groups and costs of clients.
        "hide_parameters": True,
    }
    if url.get_backend_name() == "sqlite":
        # So no file is made, as in a folder that was named wrongly.
        uri = Path(url.database or "").absolute().as_uri()
        url = url.set(database=uri, query={**url.query, "mode": "rw", "uri": "true"})
        engine = create_engine(url, **arguments)
        event.listen(engine, "connect", partial(_configure_sqlite, foreign_keys=foreign_keys))
        event.listen(engine, "begin", _begin_sqlite)
        return engine
    connect = {"connect_timeout": 5, "application_name": "fedaudit"}
    engine = create_engine(
        url,
        pool_size=10,
        max_overflow=20,
        pool_timeout=10,
        # What the caller wrote into the URL wins.
        connect_args={name: value for name, value in connect.items() if name not in url.query},
        **arguments,
    )
    event.listen(engine, "connect", partial(_configure_postgresql, seconds=transaction_seconds))
    event.listen(engine, "checkout", _refuse_ended)
    # Of the dialect: a connection with its own listener searches all others as well.
    event.listen(engine, "do_execute", _choose_form)
    event.listen(engine, "do_executemany", copy_rows)
    event.listen(engine, "handle_error", _map_timeout_to_operational_error, retval=True)
    return engine


def _configure_sqlite(connection: Any, _record: object, *, foreign_keys: bool) -> None:
    # sqlite3 would begin deferred transactions by itself, before writes only; `_begin_sqlite`
    # begins every transaction instead.
    connection.isolation_level = None
    connection.execute(f"PRAGMA busy_timeout = {_BUSY_TIMEOUT_MS}").close()
    _write_ahead(connection)
    # Deleted rows are overwritten, for some are deleted because a person asked for it.
    settings = ("synchronous = NORMAL", f"foreign_keys = {int(foreign_keys)}", "secure_delete = ON")
    for pragma in settings:
        connection.execute(f"PRAGMA {pragma}").close()


def _write_ahead(connection: Any) -> None:
    """Switch a new file to its log; SQLite does not wait for others that do so at once."""
    deadline = monotonic() + _BUSY_TIMEOUT_MS / 1000
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL").close()
        except sqlite3.OperationalError:
            if monotonic() > deadline:
                raise
            sleep(_PAUSE_SECONDS)
        else:
            return


def _begin_sqlite(connection: Connection) -> None:
    mode = connection.get_execution_options().get("sqlite_begin", "IMMEDIATE")
    connection.exec_driver_sql(f"PRAGMA query_only = {int(mode == 'DEFERRED')}")
    connection.exec_driver_sql(f"BEGIN {mode}")


def _refuse_ended(connection: Any, _record: object, _proxy: object) -> None:
    """Lets the pool replace its connections where the server has ended one: while nothing is asked,
    little else makes a socket readable. A ping would be a message more for each session."""
    socket = poll()
    if not connection.closed:
        socket.register(connection.fileno(), POLLIN)
    if connection.closed or socket.poll(0):
        raise InvalidatePoolError


def _choose_form(
    cursor: Any, _statement: str, _parameters: Any, context: ExecutionContext | None
) -> None:
    """Ask for binary results where the statement has the option."""
    if context is not None and context.execution_options.get("binary_results"):
        cursor.format = Format.BINARY


def _map_timeout_to_operational_error(context: ExceptionContext) -> OperationalError | None:
    """Maps the error of a transaction that Postgres ended at its limit to OperationalError, as for
    any lost connection; psycopg calls it an internal error, which would not be retried."""
    original = context.original_exception
    if getattr(original, "sqlstate", None) not in _ENDED_AT_A_LIMIT:
        return None
    return OperationalError(
        context.statement, None, original, hide_parameters=True, connection_invalidated=True
    )


def _configure_postgresql(connection: Any, _record: object, *, seconds: float | None) -> None:
    register_arrays(connection)
    limits = {"lock_timeout": 10.0}
    if seconds is not None:
        limits["idle_in_transaction_session_timeout"] = seconds
        if connection.info.server_version >= _TRANSACTION_TIMEOUT_SINCE:
            # The other does not count the time in which half a message has arrived.
            limits["transaction_timeout"] = seconds
    for name, limit in limits.items():
        connection.execute("SELECT set_config(%s, %s, false)", (name, f"{limit * 1000:.0f}ms"))
    connection.commit()


HEAD = "0054"
"""The revision of `migrations` that this code is written for."""


def current_revision(database: Database) -> str | None:
    """The revision that a database is at; None where it was never migrated. Raises
    sqlalchemy.exc.SQLAlchemyError where the database is away."""
    if database.file is not None and not database.file.exists():
        return None
    with database.read() as session:
        if not inspect(session.connection()).has_table("alembic_version"):
            return None
        found: str | None = session.scalar(text("SELECT version_num FROM alembic_version"))
        return found


def schema_fault(database: Database) -> str | None:
    """Why this code may not work on a database, and what to do; None where it may. Raises as
    `current_revision`."""
    current = current_revision(database)
    if current == HEAD:
        return None
    if database.file is not None and current is None:
        return (
            f"no service keeps its data in {database.file.parent}; name its folder with --data-dir "
            "or FEDAUDIT_DATA_DIR, or begin one there with `fedaudit up` or `fedaudit migrate`"
        )
    return (
        f"the database's schema is at {current or 'nothing'} and this version needs {HEAD}; run "
        "`fedaudit migrate`"
    )
