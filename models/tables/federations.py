"""Federations, the contents that they share across projects, and which contents are alike."""

from datetime import datetime
from typing import Any

from sqlalchemy import JSON, BigInteger, Double, ForeignKey, Integer, String, Text, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from models.arrays import Packed, PackedArray
from models.tables.base import Base, Identifier, Word
from models.values import FederationStatus, Simulation


class Federation(Base):
    """The clients' data, known by its fingerprint: whoever trains on it spends its budget.

    One that was deleted keeps its row, so that what was spent on the data stays spent.
    """

    __tablename__ = "federations"
    __table_args__ = (UniqueConstraint("project_id", "fingerprint"),)

    id: Mapped[str] = mapped_column(Identifier, primary_key=True)
    project_id: Mapped[str] = mapped_column(ForeignKey("projects.id"))
    fingerprint: Mapped[str] = mapped_column(String(64), index=True)
    name: Mapped[str] = mapped_column(Text)
    source: Mapped[str] = mapped_column(Word)
    profile: Mapped[dict[str, Any]]
    """Empty until there is one, and once the data is deleted."""
    status: Mapped[FederationStatus] = mapped_column(Word)
    reasons: Mapped[list[Any] | None] = mapped_column(JSON(none_as_null=True))
    """Why it was rejected: {pointer, message}, the pointer into the registration."""
    registration: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    """Null where nobody registered it, and experiments named the file by its path."""
    unit_id: Mapped[str | None] = mapped_column(ForeignKey("units.id"), index=True)
    """The unit that profiled it last, or is to."""
    storage_key: Mapped[str | None] = mapped_column(String(255))
    """Where the uploaded file is stored; null where it lies below the sources folder."""
    file_name: Mapped[str | None] = mapped_column(Text)
    size_bytes: Mapped[int | None] = mapped_column(BigInteger)
    """Of the file as it was sent, perhaps compressed."""
    simulation: Mapped[Simulation] = mapped_column(Word, server_default="allowed")
    """Whether runs are admitted whose noise anyone can draw again from the seed."""
    disclosure: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    """What its owner lets anyone ask of its groups; null where everything is left to them."""
    disclosure_set_at: Mapped[datetime | None]
    """When the policy was changed last; also where it was taken back."""
    profiles: Mapped[int] = mapped_column(Integer, server_default="0")
    """How many profiles were published of it: each registration that differs gives one."""
    created_at: Mapped[datetime]
    profiled_at: Mapped[datetime | None]
    deleted_at: Mapped[datetime | None]


class Content(Base):
    """Real data that federations of any number of projects may hold; made-up data has no row here.

    Whoever reserves of it locks its row, so that no two projects take the same last room.
    """

    __tablename__ = "contents"

    fingerprint: Mapped[str] = mapped_column(String(64), primary_key=True)
    owner_project_id: Mapped[str | None] = mapped_column(ForeignKey("projects.id"))
    """The project whose totals hold for all: the first that registered it or set a budget on it."""


class RowSketch(Base):
    """The smallest hashes of a table's rows, by which near-copies of it are recognised.

    Deleted with the data: rows with few possible values can be guessed from their hashes.
    """

    __tablename__ = "row_sketches"

    federation_id: Mapped[str] = mapped_column(ForeignKey("federations.id"), primary_key=True)
    hashes: Mapped[Packed] = mapped_column(PackedArray("int64"))
    """Ascending; fewer than those of a full sketch where the table has fewer distinct rows."""
    rows: Mapped[int] = mapped_column(BigInteger)
    """Distinct rows, estimated where the sketch is full."""


class NearCopy(Base):
    """Two federations of different content most of whose rows are the same."""

    __tablename__ = "near_copies"

    federation_id: Mapped[str] = mapped_column(ForeignKey("federations.id"), primary_key=True)
    other_id: Mapped[str] = mapped_column(ForeignKey("federations.id"), primary_key=True)
    share: Mapped[float] = mapped_column(Double)
    """Of the rows of `federation_id`, those that are rows of the other; estimated."""
