"""What every table shares: the metadata, the names of constraints, and times in UTC."""

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import JSON, DateTime, Dialect, Double, ForeignKey, MetaData, String, Text
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column
from sqlalchemy.types import TypeDecorator


class UtcDateTime(TypeDecorator[datetime]):
    """A time in UTC. SQLite stores text of fixed width without zone, which sorts by time."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Raises ValueError for a time without a zone."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"{value!r} has no time zone; pass an aware datetime")
        value = value.astimezone(UTC)
        return value.replace(tzinfo=None) if dialect.name == "sqlite" else value

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Aware and in UTC on both databases."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


def written_time(time: datetime) -> str:
    """A time as the audit log hashes and shows it: UTC, to the microsecond."""
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


Identifier = String(36)
"""A UUIDv7 in text."""

Word = String(64)
"""A name from a fixed vocabulary, or a short name that the service makes itself."""


class Base(DeclarativeBase):
    """The metadata of every table. There are no relationships: repositories say what they read."""

    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "ck": "ck_%(table_name)s_%(constraint_name)s",
            "fk": "fk_%(table_name)s_%(column_0_N_name)s",
            "pk": "pk_%(table_name)s",
        }
    )
    type_annotation_map = {  # noqa: RUF012 SQLAlchemy reads a plain class attribute
        str: Text(),
        float: Double(),
        datetime: UtcDateTime(),
        # `json` rather than `jsonb` on Postgres: it keeps the text as it was written.
        dict[str, Any]: JSON(none_as_null=True),
        list[Any]: JSON(none_as_null=True),
    }


class ProjectRow(Base):
    """The columns of what a project has under an id."""

    __abstract__ = True

    id: Mapped[str] = mapped_column(Identifier, primary_key=True, sort_order=-2)
    project_id: Mapped[str] = mapped_column(ForeignKey("projects.id"), sort_order=-1)


class ExperimentRow(Base):
    """The columns of what belongs to one experiment."""

    __abstract__ = True

    experiment_id: Mapped[str] = mapped_column(
        ForeignKey("experiments.id"), primary_key=True, sort_order=-2
    )
    project_id: Mapped[str] = mapped_column(Identifier)
