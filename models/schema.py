"""Which version of the schema a database has, and which one this code needs."""

from dataclasses import dataclass

from sqlalchemy import inspect, text

from models.database import Database

HEAD = "0045"
"""The revision of `migrations` that this code is written for."""


@dataclass(frozen=True)
class SchemaState:
    """The revision that a database is at (None: never migrated), and the one needed."""

    current: str | None
    head: str

    @property
    def matches(self) -> bool:
        """Whether this code may work on the database."""
        return self.current == self.head


def schema_state(database: Database) -> SchemaState:
    """Reads the revision; raises sqlalchemy.exc.SQLAlchemyError where the database is away."""
    with database.read() as session:
        connection = session.connection()
        if not inspect(connection).has_table("alembic_version"):
            return SchemaState(None, HEAD)
        current = session.scalar(text("SELECT version_num FROM alembic_version"))
        return SchemaState(current, HEAD)
