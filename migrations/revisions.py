"""How a database gets this version's schema: a new one at once, an earlier one by its revisions.

A new database is made from `models.tables` as they are, and marked with the newest revision. The
revisions in `migrations.earlier` are for databases that exist; a change of a table is made in
`models.tables` and as one more revision, and a test compares what the two ways give.
"""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, inspect, text

from migrations.ledger_view import create_view
from models.database import Database, current_revision
from models.tables.base import Base

# Any constant: a migration holds this lock.
_ADVISORY_LOCK = 7_302_117_645_208_331
_PACKED = ("subjects", "outcomes", "radii", "releases", "clusters", "epsilons")
_UNCOMPRESSED = {
    "ledger": _PACKED,
    "declared_ledgers": ("releases",),
    "declared_reservations": ("admitted", "denied"),
}
"""Arrays that Postgres is not to compress, which takes it up to a millisecond for 1,000 clients."""


def upgrade(url: str, revision: str = "head") -> None:
    """Brings the database to `revision`, in one transaction.

    Several at once are safe: one migrates, the others wait and find the work done. Raises
    sqlalchemy.exc.SQLAlchemyError where the database is away or a table is in the way, and
    DanglingReferencesError; then nothing is changed.
    """
    with locked(url) as connection:
        config = alembic_config(connection)
        script, reached = (
            ScriptDirectory.from_config(config),
            MigrationContext.configure(connection),
        )
        newest = script.get_current_head()
        if revision == "head" and not inspect(connection).has_table("alembic_version"):
            _create(connection)
            reached.stamp(script, revision)
        elif reached.get_current_revision() != newest:
            # Revisions change the tables that the view reads, so it is made anew after the last.
            connection.execute(text("DROP VIEW IF EXISTS privacy_ledger"))
            command.upgrade(config, revision)
            if reached.get_current_revision() == newest:
                connection.execute(text(create_view(connection.dialect.name)))


class DanglingReferencesError(RuntimeError):
    """A migrated row refers to one that does not exist; the database is as it was."""


def _create(connection: Connection) -> None:
    """Makes every table, index and view of this version in a database without any."""
    Base.metadata.create_all(connection, checkfirst=False)
    connection.execute(text(create_view(connection.dialect.name)))
    if connection.dialect.name == "postgresql":
        for table, columns in _UNCOMPRESSED.items():
            stored = ", ".join(f"ALTER COLUMN {name} SET STORAGE EXTERNAL" for name in columns)
            connection.execute(text(f"ALTER TABLE {table} {stored}"))


def current(url: str) -> str | None:
    """The revision that the database is at; None where it was never migrated."""
    with closing(Database(url)) as database:
        return current_revision(database)


@contextmanager
def locked(url: str) -> Iterator[Connection]:
    """A transaction that no other migration runs beside.

    SQLite changes a table by copying it, dropping it and renaming the copy, which fails for a table
    that rows refer to: references are checked once, at the end.
    """
    database = Database(url, transaction_seconds=None, foreign_keys=False)
    if database.file is not None:
        database.file.touch()
    # SQLite's transaction begins with the write lock, and Postgres' waits for a named one.
    with closing(database), database.write() as session:
        if database.dialect == "postgresql":
            session.execute(text("SET LOCAL lock_timeout = 0"))
            session.execute(text(f"SELECT pg_advisory_xact_lock({_ADVISORY_LOCK})"))
        yield session.connection()
        if database.dialect == "sqlite":
            _check_references(session.connection())


def _check_references(connection: Connection) -> None:
    found = connection.execute(text("PRAGMA foreign_key_check")).all()
    if found:
        named = sorted({f"{table} -> {parent}" for table, _, parent, _ in found})
        raise DanglingReferencesError(
            f"{len(found)} rows refer to rows that do not exist ({', '.join(named)}); nothing was "
            "changed. Restore the data folder from a backup, or remove these rows, and migrate "
            "again"
        )


def alembic_config(connection: Connection) -> Config:
    """What Alembic runs the revisions with, on this connection."""
    config = Config()
    # Alembic reads options with configparser, to which a percent sign is special.
    folder = str(Path(__file__).parent).replace("%", "%%")
    config.set_main_option("script_location", folder)
    config.set_main_option("path_separator", "os")
    config.set_main_option("version_locations", f"{folder}/earlier/versions")
    config.attributes["connection"] = connection
    return config
