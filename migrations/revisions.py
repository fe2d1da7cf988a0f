"""Runs Alembic from wherever the package is installed."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from sqlalchemy import Connection, text

from models.database import Database

# Any constant of its own: whoever migrates holds this lock.
_ADVISORY_LOCK = 7_302_117_645_208_331


def upgrade(url: str, revision: str = "head") -> None:
    """Brings the database to `revision`, in one transaction.

    Several at once are safe: one migrates, the others wait and find the work done. Raises
    sqlalchemy.exc.SQLAlchemyError where the database is away, and then nothing is changed.
    """
    with _locked(url) as connection:
        command.upgrade(_config(connection), revision)


def downgrade(url: str, revision: str) -> None:
    """Takes the database back to `revision` (`base`: without any table), in one transaction."""
    with _locked(url) as connection:
        command.downgrade(_config(connection), revision)


def current(url: str) -> str | None:
    """The revision that the database is at; None where it was never migrated."""
    database = Database(url)
    try:
        with database.read() as session:
            return MigrationContext.configure(session.connection()).get_current_revision()
    finally:
        database.dispose()


@contextmanager
def _locked(url: str) -> Iterator[Connection]:
    """A transaction that no other migration runs beside."""
    database = Database(url, transaction_seconds=None)
    try:
        # SQLite's transaction begins with the write lock, and Postgres' waits for a named one.
        with database.write() as session:
            if database.dialect == "postgresql":
                session.execute(text("SET LOCAL lock_timeout = 0"))
                session.execute(text(f"SELECT pg_advisory_xact_lock({_ADVISORY_LOCK})"))
            yield session.connection()
    finally:
        database.dispose()


def _config(connection: Connection) -> Config:
    config = Config()
    folder = str(Path(__file__).parent)
    # Alembic reads the option with configparser, to which a percent sign is special.
    config.set_main_option("script_location", folder.replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    return config
