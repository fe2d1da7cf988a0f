"""One database, SQLite or Postgres, behind short read and write sessions."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal, cast

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url, text
from sqlalchemy.orm import Session, sessionmaker

from models.arrays import register_array_dumper
from models.json_text import from_json, to_json

Dialect = Literal["sqlite", "postgresql"]

_BUSY_TIMEOUT_MS = 10_000
_POSTGRES_OPTIONS = "-c lock_timeout=10s -c idle_in_transaction_session_timeout=60s"


class Database:
    """Connections to one database.

    `url` is `sqlite:///PATH` (the folder must exist) or `postgresql://...`. Sessions come from
    `read()` and `write()` and are short: an open reader makes SQLite's log grow, an open writer
    holds every other writer. Rows stay usable after their session ends; they are then plain
    values, and changing them changes nothing.
    """

    def __init__(self, url: str) -> None:
        """Raises ValueError for another database, or an SQLite database without a file."""
        parsed = _normalise(url)
        self.dialect: Dialect = cast(Dialect, parsed.get_backend_name())
        self.url = parsed
        self.engine = _create_engine(parsed)
        if self.dialect == "sqlite":
            reader: dict[str, Any] = {"sqlite_begin": "DEFERRED"}
        else:
            reader = {"postgresql_readonly": True}
        self._reader = _sessions(self.engine.execution_options(**reader))
        self._writer = _sessions(self.engine)

    @contextmanager
    def read(self) -> Iterator[Session]:
        """A read-only session on one consistent state (SQLite) or one per statement (Postgres)."""
        with self._reader() as session:
            yield session

    @contextmanager
    def write(self) -> Iterator[Session]:
        """A transaction: committed when the block ends, rolled back when it raises.

        On SQLite it takes the write lock at once, so that no statement inside fails for it later.
        """
        with self._writer.begin() as session:
            yield session

    def ping(self) -> None:
        """Raises sqlalchemy.exc.SQLAlchemyError where the database does not answer."""
        with self.engine.connect() as connection:
            connection.execute(text("SELECT 1"))

    def dispose(self) -> None:
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


def _sessions(engine: Engine) -> sessionmaker[Session]:
    return sessionmaker(engine, expire_on_commit=False)


def _create_engine(url: URL) -> Engine:
    arguments: dict[str, Any] = {"json_serializer": to_json, "json_deserializer": from_json}
    if url.get_backend_name() == "sqlite":
        engine = create_engine(url, **arguments)
        event.listen(engine, "connect", _configure_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
        return engine
    connect = {"connect_timeout": 5, "application_name": "fedaudit", "options": _POSTGRES_OPTIONS}
    engine = create_engine(
        url,
        pool_pre_ping=True,
        pool_size=10,
        max_overflow=20,
        pool_timeout=10,
        # What the caller wrote into the URL wins.
        connect_args={name: value for name, value in connect.items() if name not in url.query},
        **arguments,
    )
    event.listen(engine, "connect", _configure_postgresql)
    return engine


def _configure_sqlite(connection: Any, _record: object) -> None:
    # sqlite3 would begin deferred transactions of its own, before writes only; `_begin_sqlite`
    # begins every transaction instead.
    connection.isolation_level = None
    for pragma in (
        f"busy_timeout = {_BUSY_TIMEOUT_MS}",
        "journal_mode = WAL",
        "synchronous = NORMAL",
        "foreign_keys = ON",
    ):
        connection.execute(f"PRAGMA {pragma}").close()


def _begin_sqlite(connection: Connection) -> None:
    mode = connection.get_execution_options().get("sqlite_begin", "IMMEDIATE")
    connection.exec_driver_sql(f"PRAGMA query_only = {int(mode == 'DEFERRED')}")
    connection.exec_driver_sql(f"BEGIN {mode}")


def _configure_postgresql(connection: Any, _record: object) -> None:
    register_array_dumper(connection)
